// Command assets puts what the tests run against into the cache, each by name:
//
//	go run ./tools/assets kube clis
//
// An entry that is there already costs nothing.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"nightcrier.dev/nightcrier/internal/clitest"
	"nightcrier.dev/nightcrier/internal/kubetest"
)

var makers = map[string]func(context.Context, io.Writer) error{
	"kube": kubetest.Build,
	"clis": installCLIs,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range os.Args[1:] {
		if err := run(ctx, name); err != nil {
			fmt.Fprintf(os.Stderr, "assets: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func run(ctx context.Context, name string) error {
	mk, ok := makers[name]
	if !ok {
		return fmt.Errorf("unknown asset; known are kube, clis")
	}
	return mk(ctx, os.Stderr)
}

func installCLIs(ctx context.Context, log io.Writer) error {
	for _, name := range clitest.Names() {
		if err := clitest.Install(ctx, name, log); err != nil {
			return err
		}
	}
	return clitest.InstallLinter(ctx, log)
}
