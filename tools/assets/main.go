// Command assets puts what the tests run against into the cache, each by name:
//
//	go run ./tools/assets kube clis suite
//
// They are made beside each other: what npm fetches takes time while a build takes the
// processor. An entry that is there already costs nothing.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier/internal/test/browsertest"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/mcpsuite"
)

var makers = map[string]func(context.Context, io.Writer) error{
	"kube":    kubetest.Build,
	"clis":    installCLIs,
	"suite":   mcpsuite.Install,
	"browser": browsertest.InstallAxe,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := makeAll(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "assets: %v\n", err)
		os.Exit(1)
	}
}

func makeAll(ctx context.Context, names []string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error {
			if err := run(ctx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func run(ctx context.Context, name string) error {
	mk, ok := makers[name]
	if !ok {
		return fmt.Errorf("unknown asset; known are kube, clis, suite, browser")
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
