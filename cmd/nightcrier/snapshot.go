package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

// snapshotFlags are the flags of snapshot and of snapshot serve.
type snapshotFlags struct {
	namespaces                                       []string
	all, force, original                             bool
	out, kubeconfig, context, cluster, listen, level string
}

func (p *program) snapshotCommand() *cobra.Command {
	var f snapshotFlags
	cmd := &cobra.Command{Use: "snapshot", Short: "Record what an investigation would read, or serve a recording", Args: checkArgs(unknownCommand),
		Long: `Records objects and logs of a cluster in a directory, through the guard: nothing is
changed, Secrets come without their data, and what looks like a secret is masked.
Look through the directory before you hand it on: names stay as they are.`,
		Example: `  nightcrier snapshot -n shop --out shop-outage
  nightcrier triage --snapshot shop-outage deployment/cart -n shop
  nightcrier snapshot serve shop-outage`}
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.namespaces, "namespace", "n", nil, "namespaces to record, separated by commas")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "record all namespaces")
	flags.StringVar(&f.out, "out", "", "directory to write")
	flags.BoolVar(&f.force, "force", false, "replace an existing snapshot")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "credential to read the cluster with (default KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context within the kubeconfig")
	flags.StringVar(&f.cluster, "cluster", "", "name of the cluster in the snapshot (default the context's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.all == (len(f.namespaces) > 0):
			return usageError(cmd, errors.New("what is to be recorded? Name namespaces with -n, or all with --all-namespaces"))
		case f.out == "":
			return usageError(cmd, errors.New("name the directory to write with --out"))
		}
		return p.recordSnapshot(cmd, f)
	}
	cmd.AddCommand(p.serveSnapshotCommand())
	return cmd
}

func (p *program) recordSnapshot(cmd *cobra.Command, f snapshotFlags) error {
	if err := snapshot.Replaceable(f.out, f.force); err != nil {
		return err // before anybody waits
	}
	log, err := p.newLogger("error")
	if err != nil {
		return err
	}
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	s, err := oneshot.Record(ctx, oneshot.RecordOptions{
		Kubeconfig: f.kubeconfig, Context: f.context, Environ: p.environ, Cluster: f.cluster, Namespaces: f.namespaces,
		Progress: func(line string) { p.printMessage("%s", line) }, Logger: log, Now: p.now,
	})
	if err != nil {
		return err
	}
	if objects := s.CountIn(f.namespaces...); objects == 0 {
		return nightcrier.Errorf(nightcrier.NotFound, "nothing could be recorded of %s: is it the right namespace?%s", strings.Join(f.namespaces, ", "), describeMissing(s))
	}
	if err := s.Save(f.out, f.force); err != nil {
		return err
	}
	objects, logs := s.Count()
	p.printMessage("Recorded %s and %s in %s%s", text.CountNoun(objects, "object"), text.CountNoun(logs, "log"), f.out, describeMissing(s))
	p.printMessage("Look through it before you hand it on. To investigate it: nightcrier triage --snapshot %s", f.out)
	fmt.Fprintln(p.stdout, f.out)
	return nil
}

// describeMissing says what a snapshot could not hold.
func describeMissing(s *snapshot.Snapshot) string {
	if len(s.NotCaptured) == 0 {
		return ""
	}
	var list []string
	for _, n := range s.NotCaptured {
		if !slices.Contains(list, n.What) {
			list = append(list, n.What)
		}
	}
	if len(list) > 8 {
		list = append(list[:8], fmt.Sprintf("%d more", len(list)-8))
	}
	return text.DropHidden("; not in it: " + strings.Join(list, ", ") + " (" + s.NotCaptured[0].Why + ")")
}

func (p *program) serveSnapshotCommand() *cobra.Command {
	var f snapshotFlags
	cmd := &cobra.Command{Use: "serve DIR", Short: "Serve a snapshot as a read-only Kubernetes API", Args: checkArgs(oneArg("snapshot", "which snapshot? Name its directory")),
		Example: `  nightcrier snapshot serve shop-outage
  KUBECONFIG=PRINTED kubectl get pods -A`}
	cmd.Flags().StringVar(&f.listen, "listen", "", "loopback address to serve on (default a free port of 127.0.0.1)")
	cmd.Flags().BoolVar(&f.original, "original-times", false, "keep the times as they were recorded, instead of moving them to now")
	cmd.Flags().StringVar(&f.level, "log-level", "warn", "lowest level that is logged to stderr")
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return p.serveSnapshot(cmd, f, given[0]) }
	return cmd
}

func (p *program) serveSnapshot(cmd *cobra.Command, f snapshotFlags, dir string) error {
	log, err := p.newLogger(f.level)
	if err != nil {
		return usageError(cmd, err)
	}
	s, err := snapshot.Open(dir)
	if err != nil {
		return err
	}
	taken := s.CapturedAt
	if !f.original {
		s = s.Shift(p.now())
	}
	server, err := oneshot.ServeSnapshot(s, f.listen, log)
	if err != nil {
		return err
	}
	defer server.Close()
	objects, logs := s.Count()
	fmt.Fprintln(p.stdout, server.Kubeconfig)
	p.printMessage("%s of %s: %s, %s%s", cmp.Or(text.DropHidden(s.Cluster), "A cluster"), taken.Format(time.RFC3339), text.CountNoun(objects, "object"), text.CountNoun(logs, "log"), describeMissing(s))
	p.printMessage("Until you interrupt it: KUBECONFIG=%s kubectl get pods -A", server.Kubeconfig)
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	<-ctx.Done()
	return nil
}
