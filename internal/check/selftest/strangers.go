package selftest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/decoy"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/text"
)

// host is a run whose guard strangers try to use.
type host struct {
	base, token string
	roots       *x509.CertPool
}

// waiting is an agent that uses its guard, says so and waits.
const waiting = `#!/bin/sh
kubectl get pods > "$TMPDIR/pods" 2>&1 && : > "$TMPDIR/ready"
i=0; while ! [ -e "$TMPDIR/go" ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done
`

// hostTime bounds how long it is waited for that a run uses its guard.
const hostTime = 30 * time.Second

// strangeGuards are the ways by which a run's guard is tried.
var strangeGuards = []string{
	"a run's guard from outside, without its token", "a run's guard from outside, with a token that is none", "its own guard with the token of another run",
	"the guard of another run, with its token", "a run's guard after its end, with its token",
}

// foreignGuards tries to use the guard of a run that is somebody else's: from outside,
// from another run's sandbox, and after its end.
func (b *Bench) foreignGuards(ctx context.Context, _ *decoy.Set) ([]Result, error) {
	if b.Kubectl == "" {
		return nil, nil // which gapsOf tells
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		_, err := b.runWorker(ctx, func(spec *backend.Spec, _ *backend.Secrets, _ *target.Door) error {
			spec.Executor, spec.ScriptPath = "script", filepath.Join(filepath.Dir(spec.Workspace), "wait.sh")
			begun <- spec.Workspace
			return target.WriteFile(spec.ScriptPath, waiting, 0o700)
		})
		ended <- err
	}()
	ws, h, err := awaitGuardedRun(ctx, begun, ended)
	if err != nil {
		return nil, err
	}
	all := []Result{h.knock(ctx, strangeGuards[0], ""), h.knock(ctx, strangeGuards[1], newMark())}
	inside, err := b.knockInside(ctx, h)
	if err != nil {
		return nil, err
	}
	if err := target.WriteFile(filepath.Join(ws, "tmp", "go"), "", 0o600); err != nil {
		return nil, err
	}
	if err := <-ended; err != nil {
		return nil, err
	}
	return append(append(all, inside...), h.knock(ctx, strangeGuards[4], h.token)), nil
}

// awaitGuardedRun waits for a run that uses its guard.
func awaitGuardedRun(ctx context.Context, begun <-chan string, ended <-chan error) (ws string, h host, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(hostTime)
	for {
		select {
		case ws = <-begun:
		case err := <-ended:
			return ws, h, errors.Join(nightcrier.Errorf(nightcrier.Refused, "selftest: a run that was to use its guard ended"), err)
		case <-late:
			return ws, h, nightcrier.Errorf(nightcrier.Refused, "selftest: a run did not come to use its guard")
		case <-ctx.Done():
			return ws, h, nightcrier.Errorf(nightcrier.Interrupted, "stopped")
		case <-tick.C:
			if _, err := os.Stat(filepath.Join(ws, "tmp", "ready")); ws != "" && err == nil {
				h, err = hostOf(filepath.Join(ws, "home", "kubeconfig"))
				return ws, h, err
			}
		}
	}
}

// hostOf reads what an agent was given.
func hostOf(kubeconfig string) (host, error) {
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return host{}, nightcrier.Errorf(nightcrier.Internal, "selftest: the kubeconfig of a run: %w", err)
	}
	h := host{roots: x509.NewCertPool()}
	for _, c := range file.Clusters {
		h.base = c.Server
		h.roots.AppendCertsFromPEM(c.CertificateAuthorityData)
	}
	for _, u := range file.AuthInfos {
		h.token = u.Token
	}
	if h.token == "" || h.base == "" {
		return h, nightcrier.Errorf(nightcrier.Internal, "selftest: the kubeconfig of a run has no token or no server")
	}
	return h, nil
}

// knock asks a guard for what its agent may read.
func (h host) knock(ctx context.Context, name, token string) Result {
	res := Attack{Suite: "egress", Name: name, By: byRaw, Expected: []Layer{Sandbox, Guard}}.newResult()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: h.roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 2*probe.AnswerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.base+"/api/v1/namespaces/"+target.Namespace+"/pods", nil)
	if err != nil {
		res.Outcome, res.Detail = NotExercised, err.Error()
		return res.concludeResult(false)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	met := false // by its certificate: another program may have the port here
	resp, err := transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeDone: func(_ tls.ConnectionState, err error) { met = err == nil }})))
	switch {
	case err != nil && !met:
		res.StoppedBy, res.Detail = append(res.StoppedBy, Sandbox), "it does not answer here: "+text.CutLine(err.Error(), maxDetail)
	case err != nil:
		res.Detail = text.CutLine(err.Error(), maxDetail)
	default:
		defer resp.Body.Close()
		res.Detail = "answered " + resp.Status
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			res.StoppedBy = append(res.StoppedBy, Guard)
		} else if resp.StatusCode < 400 {
			res.Outcome = Succeeded
		}
	}
	return res.concludeResult(false)
}

// knockInside has another run's agent use a token that is not its own.
func (b *Bench) knockInside(ctx context.Context, h host) ([]Result, error) {
	at, err := url.Parse(h.base)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: address of a guard: %w", err)
	}
	ran, _, err := b.InBox(ctx, []string{
		"kubectl get pods --token=" + h.token,
		fmt.Sprintf("kubectl get pods --request-timeout=5s --server=%s --insecure-skip-tls-verify --token=%s", at, h.token),
	})
	if err != nil {
		return nil, err
	}
	var all []Result
	for i, name := range strangeGuards[2:4] {
		res := ran[i].judgeRan(Attack{Suite: "egress", Name: name, By: byShell, Expected: []Layer{Sandbox, Guard}})
		if ran[i].Made && ran[i].Exit == 0 {
			res.Outcome, res.Passed = Succeeded, false
		}
		all = append(all, res)
	}
	return all, nil
}
