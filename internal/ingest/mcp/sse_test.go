package mcp

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readFrames runs input through a frameReader that takes out data beginning
// with "take", reading p bytes at a time.
func readFrames(t *testing.T, src io.Reader) (passed string, taken []string, large []int64) {
	t.Helper()
	f := newFrameReader(io.NopCloser(src))
	f.take = func(data []byte) bool {
		if !bytes.HasPrefix(data, []byte("take")) {
			return false
		}
		taken = append(taken, string(data))
		return true
	}
	f.tooLarge = func(head []byte, size int64) { large = append(large, size) }
	out, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), taken, large
}

func TestFrameReader(t *testing.T) {
	tests := []struct {
		name, in, passed string
		taken            []string
		large            int
	}{
		{name: "nothing"},
		{name: "passed", in: "data: a\n\n", passed: "data: a\n\n"},
		{name: "taken", in: "data: take 1\n\ndata: b\n\n", passed: "data: b\n\n", taken: []string{"take 1"}},
		{name: "two lines are one", in: "data: take\ndata: it\n\n", taken: []string{"take\nit"}},
		{name: "fields", in: "id: 1\nevent: message\nretry: 5\ndata:x\n\n", passed: "id: 1\nevent: message\nretry: 5\ndata:x\n\n"},
		{name: "corruption is dropped", in: ": c\nfoo: bar\nnothing\ndata: x\n\n", passed: "data: x\n\n"},
		{name: "crlf", in: "data: take\r\n\r\ndata: x\r\n\r\n", passed: "data: x\r\n\n", taken: []string{"take"}},
		{name: "cut off", in: "data: a\n\ndata: take ha", passed: "data: a\n\n"},
		{name: "at the limit", in: "data: take" + strings.Repeat("x", maxFrame-12) + "\n\n", taken: []string{"take" + strings.Repeat("x", maxFrame-12)}},
		{name: "over the limit", in: "data: " + strings.Repeat("x", maxFrame) + "\n\ndata: y\n\n", passed: "data: y\n\n", large: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			readers := map[string]io.Reader{"whole": strings.NewReader(tt.in), "halves": iotest.HalfReader(strings.NewReader(tt.in))}
			if len(tt.in) < 1000 {
				readers["bytes"] = iotest.OneByteReader(strings.NewReader(tt.in))
			}
			for how, r := range readers {
				passed, taken, large := readFrames(t, r)
				if passed != tt.passed || strings.Join(taken, "|") != strings.Join(tt.taken, "|") || len(large) != tt.large {
					t.Errorf("%s: passed %.80q, took %d, %d too large", how, passed, len(taken), len(large))
				}
			}
		})
	}
}

// An endless line needs no more memory than one event.
func TestFrameReaderIsBounded(t *testing.T) {
	const size = 64 << 20
	f := newFrameReader(io.NopCloser(io.MultiReader(strings.NewReader("data: "), io.LimitReader(letters{}, size), strings.NewReader("\n\ndata: x\n\n"))))
	var reported int64
	f.take = func([]byte) bool { return false }
	f.tooLarge = func(_ []byte, n int64) { reported = n }
	buf := make([]byte, 100)
	n, err := f.Read(buf)
	if err != nil || string(buf[:n]) != "data: x\n\n" {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
	if reported != size+8 || cap(f.event) > 2*maxFrame {
		t.Errorf("%d bytes reported, %d held", reported, cap(f.event))
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzFrameReader(f *testing.F) {
	f.Add([]byte("event: message\ndata: {}\n\n"))
	f.Add([]byte("data: take\r\n\r\n:\n\n\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		passed, taken, _ := readFrames(t, bytes.NewReader(in))
		if len(passed) > len(in)+bytes.Count(in, []byte("\n")) {
			t.Errorf("%d bytes became %d", len(in), len(passed))
		}
		again, takenAgain, _ := readFrames(t, strings.NewReader(passed))
		if again != passed || len(takenAgain) > 0 {
			t.Errorf("%q took %d and is read again as %q, taking %d", in, len(taken), again, len(takenAgain))
		}
	})
}
