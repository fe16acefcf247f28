package api

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// The parts of the API, as its description groups them.
const (
	ofIncidents = "incidents"
	ofRuns      = "runs"
	ofSkills    = "skills"
	ofEvents    = "events"
	ofClusters  = "clusters"
	ofWebhooks  = "webhooks"
)

// senderToken is how a sender of webhooks says who it is.
const senderToken = "senderToken"

// describeAPI describes the API as a whole.
func describeAPI(doc *huma.OpenAPI) {
	doc.Info.Description = "Incidents of Kubernetes clusters, their investigations, and runs of other pipelines. Errors are RFC 9457 problems with a code."
	doc.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	doc.Info.Contact = &huma.Contact{Name: "The maintainers of Nightcrier"}
	doc.Servers = []*huma.Server{{URL: "http://{listen}",
		Description: "The socket nightcrier.sock in workspace_root, with any name for the host; and what listen names, if the configuration does.",
		Variables:   map[string]*huma.ServerVariable{"listen": {Default: "127.0.0.1:8080", Description: "listen of the configuration, or webhook_listen for webhooks"}}}}
	doc.Tags = []*huma.Tag{
		{Name: ofIncidents, Description: "Faults that are or were looked into, with their investigations and reports"},
		{Name: ofSkills, Description: "What agents can be asked to do"},
		{Name: ofRuns, Description: "Executions of pipelines, whatever they are about"},
		{Name: ofEvents, Description: "What arrived, and what became of it"},
		{Name: ofClusters, Description: "The clusters, and whether their faults are received"},
		{Name: ofWebhooks, Description: "What others post"},
	}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{senderToken: {Type: "http", Scheme: "bearer",
		Description: "The token of one sender of webhooks. On listen it is asked for if the configuration names one, on webhook_listen always."}}
	doc.Security = []map[string][]string{} // whoever may open the socket may ask
}

// operations says of each operation what its route does not: which part it belongs to,
// what it does, and which answers there are beside success and the failures of any.
var operations = map[string]struct {
	part, does string
	answers    []int
}{
	"list-incidents":          {ofIncidents, "A page of incidents; nextCursor asks for the one behind it.", nil},
	"get-incident":            {ofIncidents, "What incident.json of its workspace holds, with the condition of now.", ofID},
	"get-incident-status":     {ofIncidents, "Enough to wait for the end of an investigation without reading all of the incident.", ofID},
	"get-incident-report":     {ofIncidents, "report.json as it was written; or the same for people, as Markdown or as a page that loads nothing.", ofID},
	"list-notifications":      {ofIncidents, "Every message about the incident, whether it arrived or not.", ofID},
	"tell-again":              {ofIncidents, "Of each channel and kind the last message is sent again, as the incident stands now, if it failed or may not have arrived. The answer lists what is being sent.", append([]int{http.StatusConflict}, ofID...)},
	"list-notes":              {ofIncidents, "Notes are kept as they were written.", ofID},
	"add-note":                {ofIncidents, "The next incident of the same kind shows it. An incident takes 100 notes.", append([]int{http.StatusConflict, http.StatusRequestEntityTooLarge}, ofID...)},
	"stream-incident-journal": {ofIncidents, "Server-sent events: id is the entry's sequence number, data the entry. An event named end follows the last entry of a run that ended.", ofID},
	"cancel-incident":         {ofIncidents, "The answer comes at once; the incident ends when its agent is gone.", append([]int{http.StatusConflict}, ofID...)},
	"clear-incident":          {ofIncidents, "Nobody is asked whether it is so. A source that sees the fault again says that it is back.", append([]int{http.StatusConflict}, ofID...)},
	"retry-incident":          {ofIncidents, "Only what is closed can be tried again. It costs what an investigation costs.", append([]int{http.StatusConflict}, ofID...)},
	"list-runs":               {ofRuns, "A page of runs without their steps; nextCursor asks for the one behind it. A run that waits says for what.", []int{http.StatusBadRequest}},
	"get-run":                 {ofRuns, "The attempts of its steps are in the order that they came up.", ofID},
	"stream-run-journal":      {ofRuns, "As the journal of an incident.", ofID},
	"cancel-run":              {ofRuns, "A queued run is dropped at once; one under way ends when its agent is gone.", append([]int{http.StatusConflict}, ofID...)},
	"retry-run":               {ofRuns, "The answer is the new run. With fromStep it begins with what the steps before delivered.", append([]int{http.StatusConflict}, ofID...)},
	"list-pipelines":          {ofRuns, "Those of the configured directory and of the product, as they are now. A run executes them as they were when it was admitted.", nil},
	"list-skills":             {ofSkills, "Those that the sources have now. One that cannot be read, or not be executed, says why in lacks.", nil},
	"get-skill":               {ofSkills, "The skill as an agent would get it now.", ofID},
	"start-skill":             {ofSkills, "The answer is the run, which is queued: one step that executes the skill as it is when the run is admitted.", ofCall},
	"execute-skill":           {ofSkills, "Starts a run and answers when it has ended, however long that takes. A client that goes away cancels nothing: the run is among the executions.", ofCall},
	"execute-skill-stream":    {ofSkills, "Starts a run and sends server-sent events: iteration for each call of a tool, and result as the last. With Last-Event-ID nothing is started: the stream goes on behind that event. A dry run is answered at once, as JSON.", ofCall},
	"list-domains":            {ofSkills, "A domain is there as long as a skill names it.", nil},
	"get-domain":              {ofSkills, "What stands above its skills, the skills, and where they say that something is to be handed to.", ofID},
	"start-run":               {ofRuns, "The answer is the run, which is queued. What it does is frozen when it is admitted.", ofCall},
	"execute-pipeline":        {ofRuns, "Starts a run and answers when it has ended, however long that takes. A client that goes away cancels nothing: the run is among the executions.", ofCall},
	"execute-pipeline-stream": {ofRuns, "Starts a run and sends server-sent events: step_started, iteration, step_completed, phase_started, agent_started, agent_completed, phase_completed, and pipeline_done as the last. With Last-Event-ID nothing is started: the stream goes on behind that event.", ofCall},
	"list-executions":         {ofRuns, "Runs of pipelines as the older platform showed them, newest first.", []int{http.StatusBadRequest}},
	"get-execution":           {ofRuns, "A run of a pipeline as the older platform showed it, with what its steps came to.", ofID},
	"get-analytics":           {ofRuns, "How many runs there are, what they cost and how long they took, of all pipelines and of each, and the newest of them.", nil},
	"list-triggers":           {ofRuns, "The schedules of the pipelines as they are now.", nil},
	"get-trigger-status":      {ofRuns, "Whether schedules are followed, and how many there are.", nil},
	"list-events":             {ofEvents, "A page of events, also of those that started nothing.", []int{http.StatusBadRequest}},
	"list-clusters":           {ofClusters, "The state of each fault source, and what the credential of its cluster may do.", nil},
	"post-alerts":             {ofWebhooks, again, ofSender},
	"post-webhook":            {ofWebhooks, again, ofSender},
}

const again = "Any answer of 5xx asks for the payload again; what was stored of it is then only counted."

var (
	ofID     = []int{http.StatusBadRequest, http.StatusNotFound}
	ofCall   = append([]int{http.StatusConflict, http.StatusRequestEntityTooLarge}, ofID...)
	ofSender = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}
)

// meanings are what the statuses of refusals mean.
var meanings = map[int]string{
	http.StatusBadRequest: "What was sent cannot be understood; the detail says why", http.StatusUnauthorized: "No token, or a wrong one; without a body",
	http.StatusForbidden: "On listen: a foreign Host or Origin", http.StatusNotFound: "There is no such thing, or none yet",
	http.StatusConflict: "The present state does not allow it", http.StatusRequestEntityTooLarge: "Larger than what is taken",
	http.StatusUnsupportedMediaType: "Something else than application/json",
	http.StatusUnprocessableEntity:  "A parameter is wrong; the detail names it",
}

// describeOperation completes an operation from the table.
func describeOperation(op *huma.Operation) {
	more := operations[op.OperationID]
	op.Tags, op.Description = []string{more.part}, more.does
	answers := append([]int{http.StatusForbidden, http.StatusUnprocessableEntity}, more.answers...)
	if more.part == ofWebhooks { // served by a handler that knows no parameters
		op.Security = []map[string][]string{{senderToken: {}}, {}}
		answers = slices.DeleteFunc(answers, func(code int) bool { return code == http.StatusUnprocessableEntity })
	}
	for _, code := range answers {
		response := problemResponse(meanings[code])
		if code == http.StatusUnauthorized {
			response.Content = nil
		}
		op.Responses[strconv.Itoa(code)] = response
	}
}

// problemResponse is an answer that holds a Problem.
func problemResponse(meaning string) *huma.Response {
	return &huma.Response{Description: meaning,
		Content: map[string]*huma.MediaType{problemType: {Schema: &huma.Schema{Ref: schemaPrefix + "Problem"}}}}
}
