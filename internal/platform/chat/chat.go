// Package chat answers what people ask about an incident. A question is kept together with the
// run that answers it, so it is answered once whatever dies meanwhile; the answer is what that run
// delivered, with what it cites held against what there is.
package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/text"
)

// AnswerSkill is the skill that answers a question about an incident.
const AnswerSkill = "sre/incident-answer"

// answerTime is how long an answer may take from when it was asked, with its time in the queue.
const answerTime = 15 * time.Minute

// What of the past is given to who answers: so many facts of the report, questions, and
// bytes of each answer.
const (
	maxFacts   = 100
	maxBefore  = 20
	maxAnswers = 4000
)

// Store keeps what is asked; *store.Store is one.
type Store interface {
	Incident(ctx context.Context, id string) (nightcrier.Incident, error)
	Report(ctx context.Context, incidentID string) ([]byte, error)
	Run(ctx context.Context, id string) (nightcrier.Run, error)
	Steps(ctx context.Context, run string) ([]nightcrier.Step, error)
	Journal(ctx context.Context, run string, from int64, limit int) ([]nightcrier.JournalEntry, error)
	AskQuestion(ctx context.Context, c nightcrier.Conversation, q nightcrier.Question, n store.NewRun) (nightcrier.Question, store.Enqueued, error)
	AnswerQuestion(ctx context.Context, conversation string, q nightcrier.Question) error
	Conversation(ctx context.Context, id string) (nightcrier.Conversation, error)
}

// Chat is where people ask.
type Chat struct {
	Store Store
	// Complete adds to a run what its pipeline says, and refuses one that cannot be executed.
	Complete func(context.Context, *store.NewRun) error
	// Told is told of what was queued, for whom that concerns.
	Told func(context.Context, store.Enqueued)
	// Mask hides secrets in what people write.
	Mask func(string) string
	// Now is the clock.
	Now func() time.Time
}

// AskIncident asks a question about an incident, and has it answered.
func (c *Chat) AskIncident(ctx context.Context, incidentID, question, by string) (nightcrier.Question, error) {
	q := nightcrier.Question{Text: strings.TrimSpace(text.MaskClean(question, c.Mask, text.DropHidden)), By: text.MaskClean(by, c.Mask, text.FoldLine)}
	if q.Text == "" || len(question) > nightcrier.MaxQuestion {
		return q, nightcrier.Errorf(nightcrier.Invalid, "question has %d bytes: write 1 to %d", len(question), nightcrier.MaxQuestion)
	}
	inc, err := c.Store.Incident(ctx, incidentID)
	if err != nil {
		return q, err
	}
	if inc.Status.Open() {
		return q, nightcrier.Errorf(nightcrier.Conflict, "incident %s is %s: ask when its report is there", inc.ID, inc.Status)
	}
	before, err := c.Questions(ctx, inc.ID)
	if err != nil {
		return q, err
	}
	n, err := c.newRun(ctx, inc, q, before)
	if err != nil {
		return q, err
	}
	q, queued, err := c.Store.AskQuestion(ctx, before, q, n)
	if err == nil {
		c.Told(ctx, queued)
	}
	return q, err
}

// newRun is the run that answers a question about an incident.
func (c *Chat) newRun(ctx context.Context, inc nightcrier.Incident, q nightcrier.Question, before nightcrier.Conversation) (store.NewRun, error) {
	n := store.NewRun{
		ID: nightcrier.NewID(), Subject: nightcrier.Subject{Kind: nightcrier.SubjectConversation, ID: inc.ID, Title: q.Text},
		Pipeline: nightcrier.SkillPrefix + AnswerSkill, Severity: nightcrier.ErrorSeverity, TriggeredBy: q.By, Deadline: c.Now().Add(answerTime),
	}
	report, err := c.report(ctx, inc.ID)
	if err != nil {
		return n, err
	}
	if n.Input, err = json.Marshal(given{
		Question: q.Text, Cluster: inc.Cluster, Namespace: inc.Namespace(), Conversation: told(before.Questions), Report: report,
		Incident: incident{inc.ID, inc.Resource.String(), inc.FaultType, inc.Context, inc.Timestamp},
	}); err != nil {
		return n, err
	}
	if err := c.Complete(ctx, &n); err != nil {
		return n, err
	}
	n.Key = "questions about " + inc.ID
	return n, nil
}

// given is the input of the skill that answers.
type given struct {
	Question     string      `json:"question"`
	Cluster      string      `json:"cluster"`
	Namespace    string      `json:"namespace,omitempty"`
	Incident     incident    `json:"incident"`
	Conversation []exchange  `json:"conversation,omitempty"`
	Report       *givenFacts `json:"report,omitempty"`
}

type incident struct {
	ID       string    `json:"id"`
	Resource string    `json:"resource"`
	Fault    string    `json:"fault"`
	Context  string    `json:"context,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

type exchange struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// givenFacts are what of a report a question is answered from.
type givenFacts struct {
	Verdict    nightcrier.Verdict      `json:"verdict"`
	RootCause  *nightcrier.RootCause   `json:"rootCause,omitempty"`
	Facts      []nightcrier.Fact       `json:"facts"`
	LeftOut    int                     `json:"factsLeftOut,omitempty"`
	NotChecked []nightcrier.NotChecked `json:"notChecked,omitempty"`
	Actions    []nightcrier.Action     `json:"actions,omitempty"`
}

// told are the newest questions that were answered, oldest first.
func told(questions []nightcrier.Question) (all []exchange) {
	for _, q := range questions[max(0, len(questions)-maxBefore):] {
		if !q.Open() {
			all = append(all, exchange{q.Text, text.CutBytes(cmp.Or(q.Answer, "(no answer: "+q.Failure+")"), maxAnswers)})
		}
	}
	return all
}

// report is what an incident came to, nil where it has no report. The ids of its evidence say that
// they are of the investigation: a run that answers counts its own from one.
func (c *Chat) report(ctx context.Context, incidentID string) (*givenFacts, error) {
	r, err := c.readReport(ctx, incidentID)
	if err != nil || r == nil {
		return nil, err
	}
	g := &givenFacts{Verdict: r.Verdict, RootCause: r.RootCause, NotChecked: r.NotChecked, Actions: r.Actions, LeftOut: max(0, len(r.Facts)-maxFacts)}
	g.Facts = r.Facts[:len(r.Facts)-g.LeftOut]
	for i := range g.Facts {
		for j, id := range g.Facts[i].Evidence {
			g.Facts[i].Evidence[j] = "incident:" + id
		}
	}
	return g, nil
}

func (c *Chat) readReport(ctx context.Context, incidentID string) (*nightcrier.Report, error) {
	raw, err := c.Store.Report(ctx, incidentID)
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport || err == nil && len(raw) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r nightcrier.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "decode the report of %s: %w", incidentID, err)
	}
	return &r, nil
}

// Questions are those about an incident, with the answers that there are by now: what a run has
// delivered is kept here, once.
func (c *Chat) Questions(ctx context.Context, incidentID string) (nightcrier.Conversation, error) {
	if _, err := c.Store.Incident(ctx, incidentID); err != nil {
		return nightcrier.Conversation{}, err
	}
	conv, err := c.Store.Conversation(ctx, incidentID)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nightcrier.Conversation{ID: incidentID, IncidentID: incidentID, Questions: []nightcrier.Question{}}, nil
	}
	if err != nil {
		return conv, err
	}
	for i, q := range conv.Questions {
		if !q.Open() {
			continue
		}
		answered, err := c.settle(ctx, incidentID, q)
		if err != nil {
			return conv, err
		}
		conv.Questions[i] = answered
	}
	return conv, nil
}

// settle keeps the answer to a question whose run has ended.
func (c *Chat) settle(ctx context.Context, incidentID string, q nightcrier.Question) (nightcrier.Question, error) {
	run, err := c.Store.Run(ctx, q.RunID)
	switch {
	case nightcrier.CodeOf(err) == nightcrier.NotFound:
		q.Failure = "the run that was to answer is not kept any more"
	case err != nil || run.Status.Open():
		return q, err
	default:
		if q, err = c.readAnswer(ctx, incidentID, run, q); err != nil {
			return q, err
		}
	}
	if err := c.Store.AnswerQuestion(ctx, incidentID, q); err != nil {
		if nightcrier.CodeOf(err) == nightcrier.Refused { // a store that is only looked at
			err = nil
		}
		return q, err
	}
	q.AnsweredAt = c.Now()
	return q, nil
}

// readAnswer reads what a run that has ended came to.
func (c *Chat) readAnswer(ctx context.Context, incidentID string, run nightcrier.Run, q nightcrier.Question) (nightcrier.Question, error) {
	if run.Outcome != nightcrier.StateSuccess {
		q.Failure = run.WhyUnsuccessful()
		return q, nil
	}
	steps, err := c.Store.Steps(ctx, run.ID)
	if err != nil {
		return q, err
	}
	for _, s := range steps {
		var out struct{ Summary string }
		if json.Unmarshal(s.Output, &out) == nil && out.Summary != "" {
			q.Answer = text.CutBytes(text.DropHidden(out.Summary), nightcrier.MaxAnswer)
		}
	}
	if q.Answer == "" {
		q.Failure = "the agent said nothing"
		return q, nil
	}
	return c.checkCited(ctx, incidentID, q)
}

// cited is what an answer may name as its evidence.
var cited = regexp.MustCompile(`\b(?:FACT-|E)[0-9]{1,6}\b`)

// checkCited holds what an answer cites against the facts of the report, and what was read for it.
func (c *Chat) checkCited(ctx context.Context, incidentID string, q nightcrier.Question) (nightcrier.Question, error) {
	named := map[string]bool{}
	for _, id := range cited.FindAllString(q.Answer, -1) {
		named[id] = true
	}
	if len(named) == 0 {
		return q, nil
	}
	r, err := c.readReport(ctx, incidentID)
	if err != nil {
		return q, err
	}
	read, err := c.evidenceOf(ctx, q.RunID)
	if err != nil {
		return q, err
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		switch {
		case r != nil && slices.ContainsFunc(r.Facts, func(f nightcrier.Fact) bool { return f.ID == id }):
			q.Facts = append(q.Facts, id)
		case read[id]:
			q.Evidence = append(q.Evidence, id)
		default:
			q.Unknown = append(q.Unknown, id)
		}
	}
	return q, nil
}

// evidenceOf are the ids of what a run has read.
func (c *Chat) evidenceOf(ctx context.Context, runID string) (map[string]bool, error) {
	ids := map[string]bool{}
	for from := int64(1); ; {
		entries, err := c.Store.Journal(ctx, runID, from, 0)
		if err != nil || len(entries) == 0 {
			return ids, err
		}
		for _, e := range entries {
			from = e.Seq + 1
			if r, err := journal.RequestOf(e); err == nil && r != nil && r.Evidence != "" {
				ids[r.Evidence] = true
			}
		}
	}
}
