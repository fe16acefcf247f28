package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker when a release is built.
var release = ""

// build says what this binary is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is what people are told.
func (b build) String() string {
	return fmt.Sprintf("nightcrier %s (%s, %s)", b.Version, b.Go, b.Platform)
}

func buildVersion() build {
	b := build{Version: cmp.Or(release, "dev"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; release == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (p *program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: checkArgs(noArgs)}
	p.formatFlag(cmd, "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if p.format == "json" {
			return p.printJSON(buildVersion())
		}
		fmt.Fprintln(p.stdout, buildVersion())
		return nil
	}
	return cmd
}
