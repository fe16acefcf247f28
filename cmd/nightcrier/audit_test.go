package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// audited is a store with one ended incident whose agent asked the cluster twice.
type audited struct {
	root, id, workspace, head string
}

func newAudited(t *testing.T, change func(*nightcrier.Report)) audited {
	t.Helper()
	a := audited{root: t.TempDir()}
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(a.root, "nightcrier.db")})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	d, err := s.Accept(t.Context(), nightcrier.Event{ID: nightcrier.NewID(), ReceivedAt: time.Now(), Source: "mcp", Cluster: "prod", FaultType: "CrashLoop",
		Severity: nightcrier.Critical, Resource: nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart"}, Fingerprint: "f"},
		store.AcceptPolicy{Pipeline: "k8s-incident-triage", Executor: "script", QueueMax: 10})
	must(t, err)
	a.id, a.workspace = d.Incident.ID, filepath.Join(a.root, "incident-"+d.Incident.ID)
	must(t, os.MkdirAll(filepath.Join(a.workspace, "output"), 0o700))
	_, err = s.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1})
	must(t, err)
	_, err = s.BeginRun(t.Context(), d.Run.ID)
	must(t, err)
	file := a.ask(t, s, d.Run.ID)
	must(t, os.WriteFile(filepath.Join(a.workspace, "output", auditFile), file, 0o600))
	_, err = s.NoteProgress(t.Context(), d.Run.ID, store.Progress{Workspace: a.workspace})
	must(t, err)
	_, problems, err := audit.Verify(bytes.NewReader(file), "")
	must(t, err)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	rep := nightcrier.Report{Schema: nightcrier.ReportSchema, IncidentID: a.id, Valid: true, AuditHead: a.head}
	if change != nil {
		change(&rep)
	}
	raw, err := json.Marshal(rep)
	must(t, err)
	must(t, s.FinishRun(t.Context(), store.Finish{RunID: d.Run.ID, Status: nightcrier.Resolved, Result: nightcrier.AgentResult{State: nightcrier.StateSuccess}, Report: raw}))
	return a
}

// ask journals a read and a refused write, and returns their audit.
func (a *audited) ask(t *testing.T, s *store.Store, run string) []byte {
	t.Helper()
	read := journal.Request{ID: 1, Time: time.Now(), Verb: "get", Version: "v1", Resource: "pods", Namespace: "shop", Name: "cart", Decision: journal.Allow}
	answer := read
	answer.Done, answer.Status, answer.Bytes, answer.Evidence = true, 200, 9, "E1"
	write := journal.Request{ID: 2, Time: time.Now(), Verb: "delete", Resource: "pods", Name: "cart", Decision: journal.Deny, Reason: "no", Done: true, Status: 403}
	var log audit.Log
	for i, r := range []journal.Request{read, answer, write} {
		item := journal.OfRequest(r)
		data, err := item.JSON()
		must(t, err)
		e := nightcrier.JournalEntry{Run: run, Time: time.Now(), Type: item.Type, Key: fmt.Sprint("r", i), Data: data}
		_, err = s.AppendJournal(t.Context(), run, e)
		must(t, err)
		must(t, log.Add(e))
	}
	var file bytes.Buffer
	sum, err := log.Write(&file)
	must(t, err)
	a.head = sum.Head
	return file.Bytes()
}

func TestAuditVerifyOfAnIncident(t *testing.T) {
	other := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		report func(*nightcrier.Report)
		file   func([]byte) []byte
		args   []string
		code   int
		says   string
	}{
		"whole":              {code: 0, says: "ok: 2 requests, 1 denied, 1 kept"},
		"changed file":       {file: func(b []byte) []byte { return bytes.Replace(b, []byte("cart"), []byte("card"), 1) }, code: foundExit, says: "line 1: request 1 was changed"},
		"cut file":           {file: func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] }, code: foundExit, says: "cut off"},
		"no file":            {file: func([]byte) []byte { return nil }, code: foundExit, says: "is missing from the workspace"},
		"head of the report": {report: func(r *nightcrier.Report) { r.AuditHead = other }, code: foundExit, says: "report.json says"},
		"head that is given": {args: []string{"--head", other}, code: foundExit, says: "--head says"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAudited(t, c.report)
			if c.file != nil {
				path := filepath.Join(a.workspace, "output", auditFile)
				raw, err := os.ReadFile(path)
				must(t, err)
				must(t, os.Remove(path))
				if changed := c.file(raw); changed != nil {
					must(t, os.WriteFile(path, changed, 0o600))
				}
			}
			r := runProgram(t, nil, "", append([]string{"audit", "verify", a.id, "--workspace-root", a.root}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.out, c.says) {
				t.Errorf("%+v, want %d and %q", r, c.code, c.says)
			}
		})
	}
}

// A file is compared with the report that lies beside it.
func TestAuditVerifyOfAFile(t *testing.T) {
	a := newAudited(t, nil)
	dir := filepath.Join(a.workspace, "output")
	file := filepath.Join(dir, auditFile)
	if r := runProgram(t, nil, "", "audit", "verify", file); r.code != 0 || !strings.Contains(r.errors, "neither lines cut off the end nor a file that was rewritten as a whole can be detected") {
		t.Errorf("without a head: %+v", r)
	}
	must(t, os.WriteFile(filepath.Join(dir, "report.json"), []byte(`{"auditHead":"`+a.head+`"}`), 0o600))
	if r := runProgram(t, nil, "", "audit", "verify", file); r.code != 0 || r.errors != "" {
		t.Errorf("with its report: %+v", r)
	}
	raw, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, raw[:bytes.IndexByte(raw, '\n')+1], 0o600))
	if r := runProgram(t, nil, "", "audit", "verify", file); r.code != foundExit || !strings.Contains(r.out, "should end with "+a.head) {
		t.Errorf("cut: %+v", r)
	}
	// Written anew, without the first request: nothing but the head tells.
	requests := bytes.SplitAfter(raw, []byte("\n"))
	must(t, os.WriteFile(file, rechained(t, requests[1:len(requests)-1]), 0o600))
	if r := runProgram(t, nil, "", "audit", "verify", file); r.code != foundExit || !strings.Contains(r.out, "should end with "+a.head) {
		t.Errorf("written anew: %+v", r)
	}
	must(t, os.Remove(filepath.Join(dir, "report.json")))
	if r := runProgram(t, nil, "", "audit", "verify", file); r.code != 0 || !strings.Contains(r.errors, "rewritten as a whole") {
		t.Errorf("written anew, without a head: %+v", r)
	}
	if r := runProgram(t, nil, "", "audit", "verify", a.id, "--workspace-root", a.root); r.code != foundExit {
		t.Errorf("written anew, as an incident's: %+v", r)
	}
	for _, absent := range []string{filepath.Join(dir, "absent.jsonl"), nightcrier.NewID()} {
		if r := runProgram(t, nil, "", "audit", "verify", absent, "--workspace-root", a.root); r.code != 4 {
			t.Errorf("%s: %+v", absent, r)
		}
	}
	if r := runProgram(t, nil, "", "audit", "verify", dir); r.code != 2 {
		t.Errorf("a directory: %+v", r)
	}
}

// rechained are the lines of an audit in a chain of their own, as a forger makes it.
func rechained(t *testing.T, lines [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	prev := ""
	for i, line := range lines {
		var r audit.Record
		must(t, json.Unmarshal(line, &r))
		r.Seq, r.Prev, r.Hash = int64(i+1), prev, ""
		plain, err := json.Marshal(r)
		must(t, err)
		sum := sha256.Sum256(plain)
		prev = hex.EncodeToString(sum[:])
		out.Write(bytes.Replace(plain, []byte(`"hash":""`), []byte(`"hash":"`+prev+`"`), 1))
		out.WriteByte('\n')
	}
	return out.Bytes()
}
