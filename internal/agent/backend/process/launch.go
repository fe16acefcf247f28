package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/portable"
)

// launchTimeout bounds the time from starting a worker to its claim.
const launchTimeout = 30 * time.Second

// Launch implements [backend.Backend]: a directory that is claimed or finished is left alone.
func (b Backend) Launch(ctx context.Context, spec backend.Spec, sec backend.Secrets) (backend.Handle, error) {
	spec.SetDefaults()
	if spec.NoModel {
		sec.ModelAPIKey, spec.Keyless = "", false
	}
	if err := spec.CheckSpec(); err != nil {
		return backend.Handle{}, err
	}
	h := handleOf(spec.WorkerName())
	d, err := b.dirOf(h)
	if err != nil {
		return backend.Handle{}, err
	}
	if err := b.launchIn(ctx, d, spec, sec); err != nil {
		return backend.Handle{}, err
	}
	return h, nil
}

func (b Backend) launchIn(ctx context.Context, d workdir.Dir, spec backend.Spec, sec backend.Secrets) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "worker directory: %w", err)
	}
	if begun, err := d.IsClaimed(); begun || err != nil {
		return err
	}
	if err := d.WriteFile(workdir.SpecFile, spec); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "worker spec: %w", err)
	}
	taken, err := false, error(nil)
	if spec.SharesProcess() {
		taken, err = b.joinProcess(ctx, spec.WorkerName(), sec)
	}
	if !taken {
		err = b.startProcess(ctx, d, sec)
	}
	if err != nil && ctx.Err() == nil {
		err = giveUp(d, err)
	}
	if err != nil {
		return fmt.Errorf("start worker of run %s: %w", spec.RunID, err)
	}
	return nil
}

// giveUp makes sure that a worker we take for failed, because it did not answer in
// time, cannot start an agent later: we make the claim. When the worker was
// faster it is at work, and nothing has failed.
func giveUp(d workdir.Dir, err error) error {
	ours, claimErr := d.ClaimStart()
	if claimErr == nil && !ours {
		return nil
	}
	return errors.Join(err, claimErr)
}

// joinProcess asks the process that takes in attempts for one more. It reports whether there is one
// that has taken it; an error says that it has, and what became of that. One that ended without a
// word has not: should it have claimed the attempt, a process of its own finds that out.
func (b Backend) joinProcess(ctx context.Context, name string, sec backend.Secrets) (taken bool, err error) {
	secrets, err := json.Marshal(sec)
	if err != nil {
		return false, nil // startProcess meets it as well
	}
	conn, err := workdir.Dir(b.Dir).DialWorker(ctx)
	if err != nil {
		return false, nil
	}
	defer conn.Close()
	env := workerEnv(os.Environ())
	slices.Sort(env)
	g := workdir.Guest{Name: name, Program: workdir.IdentifyProgram(b.Command[0]), Env: env, Secrets: secrets}
	if err := json.NewEncoder(conn).Encode(g); err != nil {
		return false, nil
	}
	word, err := readWord(ctx, conn)
	if word == "" && !errors.Is(err, os.ErrDeadlineExceeded) || word == workdir.NotTaken {
		return false, nil
	}
	return true, wordError(ctx, word, err)
}

// startProcess starts the process, hands it the secrets, and waits for its word.
func (b Backend) startProcess(ctx context.Context, d workdir.Dir, sec backend.Secrets) error {
	secrets, err := json.Marshal(sec)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(d.PathOf(workdir.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(b.Command[0], append(slices.Clone(b.Command[1:]), string(d))...)
	cmd.Env = workerEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs}
	portable.Detach(cmd)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	theirs.Close()
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "start worker process: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it is reaped whenever it ends; how, its directory tells
	_, err = stdin.Write(append(secrets, '\n'))
	err = errors.Join(err, stdin.Close())
	return errors.Join(awaitReady(ctx, ready), ignorePipe(err))
}

// ignorePipe drops the error of writing to a worker that ended at once: what it
// said is more telling.
func ignorePipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// awaitReady reads the worker's word: "ok", or why it will not start. A worker that
// finds another one at work says "ok" as well.
func awaitReady(ctx context.Context, ready *os.File) error {
	word, err := readWord(ctx, ready)
	return wordError(ctx, word, err)
}

// readWord reads what a worker says, for as long as it may take to claim its attempt.
func readWord(ctx context.Context, from interface {
	io.Reader
	SetReadDeadline(time.Time) error
}) (string, error) {
	deadline := time.Now().Add(launchTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := from.SetReadDeadline(deadline); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	word, err := io.ReadAll(io.LimitReader(from, 64<<10))
	return strings.TrimSpace(string(word)), err
}

// wordError is what a worker's word means, nil for "ok".
func wordError(ctx context.Context, word string, err error) error {
	switch {
	case word == "ok":
		return nil
	case strings.HasPrefix(word, workdir.FullWord):
		return nightcrier.Errorf(nightcrier.Exhausted, "worker: %s (%w)", strings.TrimPrefix(word, workdir.FullWord), syscall.ENOSPC)
	case word != "":
		return nightcrier.Errorf(nightcrier.Invalid, "worker: %s", word)
	case ctx.Err() != nil:
		return nightcrier.Errorf(nightcrier.Interrupted, "worker: %w", context.Cause(ctx))
	case err != nil:
		return nightcrier.Errorf(nightcrier.Internal, "worker did not answer: %w", err)
	}
	return nightcrier.Errorf(nightcrier.Internal, "worker ended before it claimed the run; see worker.log in its directory")
}

// inherited are the variables that a worker takes from the server: what its own
// HTTPS calls need. The agent gets none of them.
var inherited = []string{
	"PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"GOMEMLIMIT", "GOCOVERDIR",
}

func workerEnv(environ []string) []string {
	env := []string{}
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(inherited, name) {
			env = append(env, kv)
		}
	}
	return env
}
