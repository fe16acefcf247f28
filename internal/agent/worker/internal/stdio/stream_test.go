package stdio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// An agent that prints much and exits at once is read to its end, however late we
// come to it, and though a process that outlives it holds the pipe open.
func TestWhatStandsInThePipeIsRead(t *testing.T) {
	said := bytes.Repeat([]byte("0123456789abcdef"), pipeSize/16)
	for _, held := range []bool{true, false} {
		s, err := NewStream("stdout")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Theirs.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Theirs.Write(said); err != nil {
			t.Skipf("SKIPPED, this system's pipes hold no more than %d bytes: %v", n, err)
		}
		if !held {
			s.Theirs.Close()
		}
		if err := s.Ours.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		if !bytes.Equal(got, said) {
			t.Errorf("held open %v: read %d bytes of %d", held, len(got), len(said))
		}
		if want := os.ErrDeadlineExceeded; held && !errors.Is(err, want) || !held && err != nil {
			t.Errorf("held open %v: ended with %v", held, err)
		}
	}
}

// A process that outlives the agent and prints on does not keep us.
func TestOutputBehindTheDeadlineEnds(t *testing.T) {
	s, err := NewStream("stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ours.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	read := 0
	for b := make([]byte, 4<<10); err == nil; {
		if _, err := s.Theirs.Write(b); err != nil {
			t.Fatal(err)
		}
		var n int
		n, err = s.Read(b)
		read += n
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || read > pipeSize+8<<10 {
		t.Errorf("%d bytes were read, and then: %v", read, err)
	}
}
