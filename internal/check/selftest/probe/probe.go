// Package probe holds what of a selftest runs in processes of their own: the tries that an
// attacker makes in a sandbox, and the start of a sandbox where no namespace is to be had.
package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier/internal/portable"
)

// Command is the first argument with which the binary must call Run.
const Command = "sandbox-probe"

// FloorCommand is the first argument with which the binary must call OnTheFloor.
const FloorCommand = "sandbox-floor"

// How a probe ends, as the exit code of its process.
const (
	// Done is that it got what it wanted, Refused that something refused it.
	Done    = 0
	Refused = 1
	usage   = 2
	// Unknown is that nothing refused it, and nobody answered.
	Unknown = 3
)

// AnswerTime is how long a probe waits for an answer.
const AnswerTime = 1500 * time.Millisecond

// errUnanswered is that nothing refused a probe and nobody answered it.
var errUnanswered = errors.New("no answer")

// Run makes one try to get out of a sandbox and prints what came of it. It is the
// attacker: it changes nothing, also where nothing holds it.
func Run(args []string, out io.Writer) (exit int) {
	if len(args) < 2 {
		fmt.Fprintln(out, "usage: sandbox-probe WHAT ARGUMENT [MARK]")
		return usage
	}
	what, arg, mark := args[0], args[1], ""
	if len(args) > 2 {
		mark = args[2]
	}
	try, known := probes[what]
	if !known {
		fmt.Fprintln(out, "no such probe:", what)
		return usage
	}
	err := try(arg, mark)
	var timeout net.Error
	switch {
	case err == nil:
		fmt.Fprintln(out, "done")
		return Done
	case errors.Is(err, errUnanswered) || errors.As(err, &timeout) && timeout.Timeout():
		fmt.Fprintln(out, "unanswered:", err)
		return Unknown
	}
	fmt.Fprintln(out, "refused:", err)
	return Refused
}

var probes = map[string]func(arg, mark string) error{
	"tcp": newAsker("tcp"), "udp": newAsker("udp"), "unix": newAsker("unix"), "unixgram": newSender("unixgram"),
	"lookup": lookupName, "read": readFile, "list": listDir, "stat": statFile, "touch": touchFile, "cut": truncateFile, "of-all": ofAll, "signal": signalTo,
	"socket": openSocket, "mptcp": multipath, "fastopen": fastOpen, "call": callKernel, "pair": byOneOfAPair, "watch": watchDir, "shm": readShared,
	"hog": hogMemory, "hoard": hoard, "stay": stayUntilEnd, "spend": spendEndlessly,
}

// newAsker says the mark to whoever listens, and waits for it to be said back.
func newAsker(network string) func(arg, mark string) error {
	return func(addr, mark string) error {
		conn, err := net.DialTimeout(network, addr, AnswerTime)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(AnswerTime))
		if _, err := conn.Write([]byte(mark)); err != nil {
			return err
		}
		if mark == "" {
			return nil
		}
		back := make([]byte, len(mark))
		_, err = io.ReadFull(conn, back)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %w", errUnanswered, err)
		}
		return err
	}
}

// newSender says the mark to a socket that does not answer.
func newSender(network string) func(arg, mark string) error {
	return func(addr, mark string) error {
		conn, err := net.DialTimeout(network, addr, AnswerTime)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte(mark))
		return err
	}
}

// lookupName asks for a name, as a program does that smuggles something out in one.
func lookupName(name, _ string) error {
	_, err := net.LookupHost(name)
	return err
}

func readFile(name, _ string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

func listDir(name, _ string) error {
	_, err := os.ReadDir(name)
	return err
}

func statFile(name, _ string) error {
	_, err := os.Lstat(name)
	return err
}

// ofAll looks for a mark in what /proc tells of every process that can be seen. It is given
// the mark backwards: this process has it in its arguments, too, and whoever started it.
func ofAll(file, backwards string) error {
	mark := ReverseBytes(backwards)
	all, err := filepath.Glob(filepath.Join("/proc", "[0-9]*"))
	if err != nil {
		return err
	}
	last := fmt.Errorf("%d processes to be seen, none of them", len(all))
	for _, dir := range all {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if bytes.Contains(text, []byte(mark)) {
			return nil
		}
		if errors.Is(err, os.ErrPermission) {
			last = err
		}
	}
	return last
}

func touchFile(name, _ string) error { return os.Chtimes(name, time.Time{}, time.Now()) }

// truncateFile asks for a file to be as long as it is.
func truncateFile(name, _ string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	return os.Truncate(name, info.Size())
}

// ReverseBytes turns a mark round, for probes that are not to find it in their own arguments.
func ReverseBytes(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// signalTo asks the kernel whether a process may be sent a signal. Which one is
// meant is told by its arguments: inside, its number may be another's.
func signalTo(pid, mark string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if err := portable.Signallable(n); err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/" + pid + "/cmdline")
	if err == nil && !strings.Contains(string(line), mark) {
		return errors.New("it is another process that has the number here")
	}
	return nil
}

// hogMemory takes so much memory, in MiB, and uses it.
func hogMemory(mebibytes, _ string) error {
	n, err := strconv.Atoi(mebibytes)
	if err != nil {
		return err
	}
	var all [][]byte
	for range n {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		time.Sleep(4 * time.Millisecond) // where memory is watched a limit takes a moment
	}
	fmt.Printf("has %d MiB\n", len(all))
	return nil
}

// PaidModel is the model that is asked by who spends without end.
const PaidModel = "claude-sonnet-4-5"

// maxSpent bounds the calls of one spender, also where nothing else does.
const maxSpent = 300

// spendEndlessly asks the model of its environment again and again, so many times at once, for
// answers of a length in tokens, also after it was refused.
func spendEndlessly(atOnce, answer string) error {
	n, err := strconv.Atoi(atOnce)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%s,"messages":[{"role":"user","content":%q}]}`, PaidModel, answer, strings.Repeat("on and on ", 20))
	for range 3 { // what is asked at once may be refused before any of it is sent
		askModel(body)
	}
	var asking sync.WaitGroup
	for range n {
		asking.Go(func() {
			for range maxSpent / n {
				askModel(body)
			}
		})
	}
	asking.Wait()
	return nil
}

func askModel(body string) {
	req, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body) // whatever it says, the next call is made
	resp.Body.Close()
}

// stayTime bounds how long somebody stays to be attacked.
const stayTime = 3 * time.Minute

// stayUntilEnd does nothing until it is told to end: somebody to be attacked.
func stayUntilEnd(string, string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-end:
	case <-time.After(stayTime):
	}
	return nil
}
