package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// maxLine bounds a line that is verified; ours are far shorter.
const maxLine = 1 << 20

// maxProblems is how many problems are told: one is proof enough.
const maxProblems = 20

// Problem is something wrong with a file.
type Problem struct {
	// Line counts from 1; 0 is the file as a whole.
	Line int64  `json:"line,omitempty"`
	Text string `json:"text"`
}

// String is the problem for people.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Verify checks a file's chain, and its end when a head is given. It tells at most
// 20 problems. The error is that the file could not be read.
func Verify(r io.Reader, head string) (Summary, []Problem, error) {
	v := verifier{}
	in := bufio.NewReaderSize(r, maxLine)
	for n := int64(1); ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			v.verifyEnd(head)
			return v.sum, v.problems, nil
		case errors.Is(err, bufio.ErrBufferFull):
			v.addProblem(n, "it is longer than %d bytes and none of ours", maxLine)
			return v.sum, v.problems, nil
		case err != nil && !errors.Is(err, io.EOF):
			return v.sum, v.problems, nightcrier.Errorf(nightcrier.Unreachable, "read line %d: %w", n, err)
		case err != nil:
			v.addProblem(n, "it is not whole: the file was cut within it")
			v.verifyEnd(head)
			return v.sum, v.problems, nil
		}
		v.verifyLine(n, bytes.TrimSuffix(line, []byte("\n")))
	}
}

// verifier walks over a file. It goes on after a problem from what the line
// itself claims, so that one change is one problem.
type verifier struct {
	sum      Summary
	seq      int64
	problems []Problem
}

func (v *verifier) addProblem(line int64, format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, Problem{line, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) verifyLine(n int64, line []byte) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		v.addProblem(n, "it is no line of an audit: %v", err)
		v.seq++
		return
	}
	written, err := r.encodeLine()
	want, sumErr := r.computeHash()
	changed := err != nil || sumErr != nil || want != r.Hash || !bytes.Equal(written, line)
	switch {
	case changed:
		v.addProblem(n, "request %d was changed: its content does not carry its hash", r.Seq)
	case r.Seq > v.seq+1:
		v.addProblem(n, "%s missing before request %d", describeSpan(v.seq+1, r.Seq-1), r.Seq)
	case r.Seq <= v.seq:
		v.addProblem(n, "request %d stands here after request %d", r.Seq, v.seq)
	case r.Prev != v.sum.Head:
		v.addProblem(n, "request %d does not follow the line before it", r.Seq)
	}
	v.countRecord(r)
}

func describeSpan(from, to int64) string {
	if from == to {
		return fmt.Sprintf("request %d is", from)
	}
	return fmt.Sprintf("requests %d to %d are", from, to)
}

func (v *verifier) countRecord(r Record) {
	v.seq, v.sum.Head = r.Seq, r.Hash
	v.sum.Requests++
	if r.Decision == journal.Deny {
		v.sum.Denied++
	}
	if r.Evidence != "" {
		v.sum.Kept++
	}
}

// verifyEnd compares the last line with what is known of it elsewhere.
func (v *verifier) verifyEnd(head string) {
	switch {
	case head == "" || head == v.sum.Head:
	case v.sum.Head == "":
		v.addProblem(0, "the file is empty; its last line should have the hash %s", head)
	default:
		v.addProblem(0, "the file ends with the hash %s, and should end with %s: lines were cut off or added", v.sum.Head, head)
	}
}
