package oneshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// GuardOptions say which cluster a guard of its own stands before.
type GuardOptions struct {
	// Kubeconfig and Context are the credential; empty is what kubectl means by it.
	Kubeconfig, Context string
	// Namespace is where commands look when they name none; empty is the context's.
	Namespace string
	// Out keeps the evidence and the audit; it must be an existing directory.
	Out string
	// Unannounced keeps the ids of evidence out of the answers.
	Unannounced bool
	// Listen is the address; empty is a free port of 127.0.0.1.
	Listen  string
	Environ []string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Guard stands before a cluster without a run around it. Close ends it.
type Guard struct {
	out    string
	now    func() time.Time
	rec    *evidence.Recorder
	server *guardkube.Server
	// Kubeconfig leads to the guard; it holds a token that dies with it.
	Kubeconfig []byte
	// Notes tell what is unusual about the way to the cluster.
	Notes []string

	mu      sync.Mutex
	journal *os.File
	last    nightcrier.JournalEntry
	file    *os.File      // of the audit
	log     *audit.Stream // to it: a guard may run for months
}

// The files of a guard, in its output directory.
const (
	guardJournal = "journal.jsonl"
	guardAudit   = "audit.jsonl"
)

// OpenGuard starts a guard. The output directory must not hold another one's
// record.
func OpenGuard(o GuardOptions) (_ *Guard, err error) {
	cred, err := app.ReadCredential(o.Kubeconfig, o.Context, o.Environ)
	if err != nil {
		return nil, err
	}
	up, err := guardkube.Dial(cred.Kubeconfig, cred.Env)
	if err != nil {
		return nil, err
	}
	g := &Guard{out: o.Out, now: o.Now, Notes: up.Notes, last: nightcrier.JournalEntry{Run: nightcrier.NewID()}}
	defer func() {
		if err != nil {
			_, _ = g.Close() // why it could not open is told
		}
	}()
	if err := g.openFiles(); err != nil {
		return nil, err
	}
	masker := mask.Fresh(cred.Secrets()...)
	kube, err := guardkube.New(guardkube.Config{
		Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Evidence: g.rec, Unannounced: o.Unannounced, Audit: g.auditRequest, Logger: o.Logger, Now: o.Now,
	})
	if err != nil {
		return nil, err
	}
	return g, g.serveKube(kube, o, cred.Kubeconfig)
}

func (g *Guard) openFiles() (err error) {
	if g.journal, err = g.createRecord(guardJournal); err != nil {
		return err
	}
	if g.file, err = g.createRecord(guardAudit); err != nil {
		return errors.Join(err, os.Remove(g.journal.Name()))
	}
	g.log = audit.NewStream(g.file)
	g.rec, err = evidence.Open(filepath.Join(g.out, "evidence"))
	return err
}

// createRecord makes a file of the guard's record, which must not be there.
func (g *Guard) createRecord(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(g.out, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, nightcrier.Errorf(nightcrier.Conflict, "%s holds the record of another guard: name an empty directory", g.out)
	case err != nil:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "record of the guard: %w", err)
	}
	return f, nil
}

func (g *Guard) serveKube(kube *guardkube.Guard, o GuardOptions, credential []byte) error {
	l, err := ListenOn("--listen", cmp.Or(o.Listen, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	if g.server, err = guardkube.Serve(l, kube); err != nil {
		l.Close()
		return err
	}
	g.Kubeconfig, err = g.server.KubeconfigIn(cmp.Or(o.Namespace, namespaceOf(credential)))
	return err
}

// namespaceOf is the namespace of a kubeconfig's context.
func namespaceOf(raw []byte) string {
	cfg, err := clientcmd.Load(raw)
	if err != nil || cfg.Contexts[cfg.CurrentContext] == nil {
		return ""
	}
	return cfg.Contexts[cfg.CurrentContext].Namespace
}

// auditRequest writes down what the guard decided, and what came of it.
func (g *Guard) auditRequest(_ context.Context, r guardkube.AuditRecord) error {
	item := journal.OfRequest(r)
	data, err := item.JSON()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e := nightcrier.JournalEntry{
		Run: g.last.Run, Seq: g.last.Seq + 1, Time: g.now().UTC().Truncate(time.Microsecond), Type: item.Type, Data: data,
		Key: fmt.Sprintf("guard/%d", g.last.Seq+1), Prev: g.last.Hash,
	}
	e.Hash = e.ChainHash(e.Prev)
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := g.journal.Write(append(line, '\n')); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "journal of the guard: %w", err)
	}
	g.last = e
	if err := g.log.Add(e); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "audit of the guard: %w", err)
	}
	return nil
}

// Close ends the guard and completes its audit.
func (g *Guard) Close() (s audit.Summary, err error) {
	if g.server != nil {
		err = g.server.Close()
	}
	g.mu.Lock() // an answer that was cut may still be told of
	defer g.mu.Unlock()
	if g.rec != nil {
		err = errors.Join(err, g.rec.Close())
	}
	if g.log != nil {
		var writeErr error
		if s, writeErr = g.log.Close(); writeErr != nil {
			err = errors.Join(err, nightcrier.Errorf(nightcrier.Exhausted, "audit of the guard: %w", writeErr))
		}
	}
	for _, f := range []*os.File{g.journal, g.file} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return s, err
}
