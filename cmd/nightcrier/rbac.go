package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/cluster/rbac"

	"github.com/spf13/cobra"
)

func (p *program) rbacCommand() *cobra.Command {
	return groupCommand("rbac", "Make a read-only credential for investigations", p.rbacManifestCommand(), p.rbacKubeconfigCommand())
}

// accountFlags are the flags that name the account.
func accountFlags(cmd *cobra.Command, a *rbac.Account) {
	cmd.Flags().StringVar(&a.Name, "name", rbac.DefaultName, "name of the ServiceAccount, and of its role")
	cmd.Flags().StringVarP(&a.Namespace, "namespace", "n", rbac.DefaultNamespace, "namespace of the ServiceAccount")
	cmd.Flags().StringSliceVar(&a.Namespaces, "namespaces", nil, "namespaces that it may read (default all)")
}

func (p *program) rbacManifestCommand() *cobra.Command {
	var a rbac.Account
	cmd := &cobra.Command{Use: "manifest", Short: "Print a ServiceAccount with the least rights investigations need", Args: checkArgs(noArgs),
		Long: `Prints a ServiceAccount with a role that may get, list and watch what investigations
read, and nothing else: no Secrets, nothing that changes the cluster. Pipe it to
kubectl apply -f -; the command itself contacts no cluster.

With --namespaces it may read these namespaces, and objects that are in no namespace.
Name the same namespaces in clusters[].namespaces of the configuration.`,
		Example: "  nightcrier rbac manifest | kubectl apply -f -"}
	accountFlags(cmd, &a)
	cmd.RunE = func(*cobra.Command, []string) error {
		out, err := rbac.Manifest(a)
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(out)
		return err
	}
	return cmd
}

func (p *program) rbacKubeconfigCommand() *cobra.Command {
	var r rbac.Request
	var out string
	cmd := &cobra.Command{Use: "kubeconfig", Short: "Make a kubeconfig for the read-only account", Args: checkArgs(noArgs),
		Long: `Asks the cluster for a token of the ServiceAccount that ` + "`rbac manifest`" + ` describes, and
writes a kubeconfig with it. This is the only command that creates anything in a
cluster: one token, made with your credential, which needs the right to create
serviceaccounts/token. Then it asks the cluster what the new credential may do, and
prints that.

The token expires after --duration, or sooner where the cluster grants less. Run the
command again before that; a running server notices the new file.`,
		Example: "  nightcrier rbac kubeconfig --context admin@prod-1 --out prod-1.readonly.yaml"}
	accountFlags(cmd, &r.Account)
	cmd.Flags().StringVar(&r.Kubeconfig, "kubeconfig", "", "credential that may make tokens (default KUBECONFIG, then ~/.kube/config)")
	cmd.Flags().StringVar(&r.Context, "context", "", "context within the kubeconfig")
	cmd.Flags().DurationVar(&r.Duration, "duration", 30*24*time.Hour, "how long the token is valid")
	cmd.Flags().StringVar(&out, "out", "", "file to write, readable by you alone (default stdout)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		made, err := rbac.Kubeconfig(ctx, r)
		if err != nil {
			return err
		}
		return p.handCredential(made, out)
	}
	return cmd
}

// handCredential writes a new credential to where it belongs, and says what it is good for.
func (p *program) handCredential(made rbac.Made, out string) error {
	p.printMessage("%s made a token that is valid until %s.", made.Host, made.ExpiresAt.Local().Format(time.RFC1123))
	if made.Known.CanWrite == preflight.No {
		p.printMessage("Read-only: %s.", made.Known.WorstCase())
	} else {
		p.printMessage("Warning: not certainly read-only: %s.", made.Known.WorstCase())
	}
	if made.Known.Can["list pods"] != preflight.Yes {
		p.printMessage("Warning: it may not even list Pods in namespace %s. Apply `nightcrier rbac manifest` first.", made.Known.Namespace)
	}
	if out == "" {
		_, err := p.stdout.Write(made.Kubeconfig)
		return err
	}
	if err := writePrivate(out, made.Kubeconfig); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "write %s: %w", out, err)
	}
	fmt.Fprintln(p.stdout, out)
	return nil
}

// writePrivate replaces a file in one step by one that only its owner can read.
func writePrivate(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
