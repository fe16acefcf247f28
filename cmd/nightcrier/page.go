package main

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/ui"
	"nightcrier.dev/nightcrier/internal/record/workspace"

	"github.com/spf13/cobra"
)

func (p *program) pageCommand() *cobra.Command {
	open := false
	cmd := &cobra.Command{Use: "page", Short: "Print a link that logs a browser in on the page of the server", Args: checkArgs(noArgs),
		Long: `Prints a link to the page of a server on this machine. It logs one browser in, within 15
minutes. Who may read the server's workspace_root may make one.`}
	cmd.Flags().BoolVar(&open, "open", false, "open it in a browser")
	fewConfigFlags(cmd, "workspace-root", "page-listen", "page-url")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, _, err := p.loadWithWarnings(cmd)
		if err != nil {
			return err
		}
		link, err := pageLink(cfg, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, link)
		if open {
			p.openInBrowser(link)
		}
		return nil
	}
	return cmd
}

// pageLink makes a link to the page as it is configured.
func pageLink(cfg *config.Config, now time.Time) (string, error) {
	origin := cfg.Page.URL
	if origin == "" {
		_, port, _ := net.SplitHostPort(cfg.Page.Listen)
		switch port {
		case "":
			return "", nightcrier.Errorf(nightcrier.Invalid, "no page is served: set page_listen, such as 127.0.0.1:8090")
		case "0":
			return "", nightcrier.Errorf(nightcrier.Invalid, "page_listen names no port, so that only the server knows it: its log says page_listen; set one, such as 127.0.0.1:8090")
		}
		origin = "http://" + cfg.Page.Listen
	}
	secret := workspace.ReadMaskKey(cfg.WorkspaceRoot)
	if secret == nil {
		return "", nightcrier.Errorf(nightcrier.NotFound, "%s has no key of a server that you may read: name the server's own with --workspace-root, or start it with `nightcrier serve`", cfg.WorkspaceRoot)
	}
	return ui.LoginLink(ui.KeyFrom(secret), origin, now), nil
}

// openInBrowser has the desktop show an address or a file. Where that fails, the address was
// printed.
func (p *program) openInBrowser(address string) {
	words := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		words[0] = "open"
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	if err := exec.Command(words[0], words[1:]...).Start(); err != nil {
		p.printMessage("No browser could be opened (%v): open it yourself.", err)
	}
}
