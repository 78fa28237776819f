// The Kubernetes resource provider of Pulumi, linked from its own module.
//
// Its own main package embeds files that are generated at release time and are not part of the module.
// Python programs bring their types along, so the engine never asks this provider for more than a schema's name.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	provider.Serve("kubernetes", version.Version, []byte(`{"name":"kubernetes"}`), []byte(`{}`))
}
