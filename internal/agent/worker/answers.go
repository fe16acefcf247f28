package worker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/record/journal"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// maxToldFailures is how many failed calls of the model are journaled one by one.
const maxToldFailures = 100

// answers follows how the model's API answers. When an agent fails because of it, this
// says so: the agents' own words differ, and name the guard's address for the API's.
type answers struct {
	mu     sync.Mutex
	failed *refusal // the last answer, nil where that was none or no error
	told   int
}

// refusal is an answer of the model's API that is an error.
type refusal struct {
	status  int
	message string // the API's own, masked; "" where it is not understood
}

func (r refusal) String() string {
	if r.status == http.StatusUnauthorized {
		return fmt.Sprintf("the model's API refused the key (HTTP %d)", r.status)
	}
	text := fmt.Sprintf("the model's API answered HTTP %d", r.status)
	if r.message != "" {
		return text + ": " + r.message
	}
	return text + " " + http.StatusText(r.status)
}

// noteAnswer takes note of every call: the guard tells it. Calls that only count say nothing of
// whether the agent can work.
func (a *attempt) noteAnswer(x model.Exchange) {
	if !x.Done || !x.Billed || x.Status == 0 {
		return
	}
	var r *refusal
	if x.Status >= http.StatusBadRequest {
		r = &refusal{x.Status, a.mask.String(apiMessage(x.Response.Text))}
	}
	a.answers.mu.Lock()
	a.answers.failed = r
	tell := r != nil && a.executor.RetriesUntold && a.answers.told < maxToldFailures
	if tell {
		a.answers.told++
	}
	a.answers.mu.Unlock()
	if tell {
		a.recordItems(journal.OfError(journal.Error{Text: r.String(), HTTPStatus: r.status, Attempt: x.Sent}))
	}
	if r != nil && (r.status == http.StatusUnauthorized || r.status == http.StatusPaymentRequired) {
		a.requestStop(abortCause(agent.StatusClass(r.status), r.String())) // it will be so the next time too
	}
}

// explainFailure says why an agent failed whose last call of the model's API was refused, and
// classes the failure by the status where that tells more than the agent does.
func (a *attempt) explainFailure(r *nightcrier.AgentResult) {
	a.answers.mu.Lock()
	failed := a.answers.failed
	a.answers.mu.Unlock()
	if failed == nil || r.State != nightcrier.StateFailed || !a.inItsWords() {
		return
	}
	switch r.FailureClass {
	case nightcrier.FailAgent, nightcrier.FailAuth, nightcrier.FailQuota:
	default:
		return // it failed for something else
	}
	if class := agent.StatusClass(failed.status); class != nightcrier.FailAgent {
		r.FailureClass = class
	}
	r.FailureReason = failed.String()
}

// maxAPIMessage bounds what is told of an API's message, in bytes.
const maxAPIMessage = 300

// apiMessage finds the message in an error of the model's API, or of a gateway before
// it: {"error": {"message": …}}, {"error": "…"}, {"message": …}, and lists of these.
func apiMessage(body []byte) string {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var e struct {
		Error                  json.RawMessage
		Message, Detail, Title string
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	var inner struct{ Message string }
	said := ""
	if json.Unmarshal(e.Error, &inner) == nil {
		said = inner.Message
	} else if json.Unmarshal(e.Error, &said) != nil {
		said = ""
	}
	for _, s := range []string{said, e.Message, e.Detail, e.Title} {
		if s = texts.CutWords(texts.FoldLine(s), maxAPIMessage); s != "" {
			return s
		}
	}
	return ""
}
