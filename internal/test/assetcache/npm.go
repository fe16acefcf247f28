package assetcache

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// NPM puts packages of npm into dir, each as name@version, and runs none of their
// scripts.
func NPM(ctx context.Context, dir string, log io.Writer, packages ...string) error {
	fmt.Fprintf(log, "installing %s by npm (once)\n", strings.Join(packages, ", "))
	cmd := exec.CommandContext(ctx, "npm", append([]string{"install", "--prefix", dir, "--ignore-scripts",
		"--no-audit", "--no-fund", "--no-package-lock"}, packages...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w: %s", strings.Join(packages, " "), err, out)
	}
	return nil
}
