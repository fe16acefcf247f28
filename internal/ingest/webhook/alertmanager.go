package webhook

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/text"
)

// alertDialect is how events from alerts are marked.
const alertDialect = "alertmanager"

// group is a notification of Alertmanager, version 4 of its webhook payload. What
// is said of all alerts together is not looked at: each alert says it too.
type group struct {
	Version         string            `json:"version,omitempty"`
	GroupKey        string            `json:"groupKey,omitempty"`
	TruncatedAlerts json.RawMessage   `json:"truncatedAlerts,omitempty"`
	Receiver        string            `json:"receiver,omitempty"`
	GroupLabels     map[string]string `json:"groupLabels,omitempty"`
	ExternalURL     string            `json:"externalURL,omitempty"`
	Alerts          []json.RawMessage `json:"alerts"`
	// key stands for the labels that Alertmanager groups by, beside the alert's
	// name; "" when there are none.
	key string
}

// maxAlerts bounds the alerts of one payload.
const maxAlerts = 20_000

// alert is one alert of a group, or as Alertmanager's own API lists it.
type alert struct {
	Status       state             `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     string            `json:"startsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

// state is whether an alert fires: a word in notifications, an object with the
// word in the API, where an alert that is listed fires.
type state string

const (
	firing   state = "firing"
	resolved state = "resolved"
)

// UnmarshalJSON reads either shape.
func (s *state) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*s = firing
		return nil
	}
	return json.Unmarshal(b, (*string)(s))
}

// Alerts returns the deliveries of a payload: a notification of Alertmanager, a
// list of alerts, or one alert. One that cannot be read is an Invalid error, or
// Exhausted when it is too large.
func Alerts(c Cluster, payload []byte) ([]nightcrier.Delivery, error) {
	if len(payload) > MaxBody {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "the payload is larger than %d bytes", MaxBody)
	}
	b := readAlerts(c, payload)
	return b.deliveries, b.problem
}

func readAlerts(c Cluster, payload []byte) batch {
	g, err := readGroup(payload)
	if err == nil && len(g.Alerts) > maxAlerts {
		err = nightcrier.Errorf(nightcrier.Exhausted, "the payload holds %d alerts; at most %d are read", len(g.Alerts), maxAlerts)
	}
	if err != nil {
		return unreadableBatch(alertDialect, c.Name, payload, err)
	}
	g.settleGroup()
	var b batch
	for _, raw := range g.Alerts {
		b.deliveries = append(b.deliveries, c.newDelivery(g, raw))
	}
	if left := g.leftOut(); left != "" {
		b.lacking = fmt.Sprintf("Alertmanager left %s of group %s out: raise max_alerts of its webhook_configs", left, text.CutLine(g.GroupKey, maxValue))
		b.deliveries = append(b.deliveries, c.truncatedDelivery(g, b.lacking))
	}
	return b
}

// leftOut is how many alerts Alertmanager says that it has left out, "" for none. A number
// that cannot be read keeps none of the alerts from being read that are there.
func (g group) leftOut() string {
	var n uint64
	switch err := json.Unmarshal(g.TruncatedAlerts, &n); {
	case len(g.TruncatedAlerts) == 0, err == nil && n == 0:
		return ""
	case err != nil:
		return fmt.Sprintf("an unknown number of alerts (truncatedAlerts is %s)", text.CutLine(string(g.TruncatedAlerts), maxWord))
	}
	return fmt.Sprintf("%d alerts", n)
}

// readGroup reads any of the shapes that alerts come in.
func readGroup(payload []byte) (g group, err error) {
	payload = bytes.TrimSpace(payload)
	if len(payload) > 0 && payload[0] == '[' {
		if err := json.Unmarshal(payload, &g.Alerts); err != nil {
			return g, invalidError("payload", err)
		}
		return g, nil
	}
	var shape struct{ Labels, Alerts json.RawMessage }
	if err := json.Unmarshal(payload, &shape); err != nil {
		return g, invalidError("payload", err)
	}
	switch {
	case shape.Alerts != nil:
		if err := json.Unmarshal(payload, &g); err != nil {
			return g, invalidError("payload", err)
		}
	case shape.Labels != nil:
		g.Alerts = []json.RawMessage{payload}
	default:
		return g, nightcrier.Errorf(nightcrier.Invalid, "the payload has neither alerts nor labels: it is no notification of Alertmanager")
	}
	return g, nil
}

// settleGroup works out what all alerts of the group share. What is kept with each of
// them stays small.
func (g *group) settleGroup() {
	by := maps.Clone(g.GroupLabels)
	delete(by, "alertname")
	if len(by) > 0 {
		g.key = labelsHash(by)
	}
	if len(g.TruncatedAlerts) > maxWord {
		g.TruncatedAlerts = json.RawMessage(`"too long"`)
	}
	head := *g
	head.Alerts = nil
	if len(encodeJSON(head)) > headSize {
		g.GroupLabels, g.Receiver, g.ExternalURL, g.GroupKey = nil, "", "", text.CutBytes(g.GroupKey, maxValue)
	}
}

// newDelivery returns what one alert of a group says.
func (c Cluster) newDelivery(g group, raw json.RawMessage) nightcrier.Delivery {
	d := nightcrier.Delivery{Source: Source, Cluster: c.Name, Dialect: alertDialect, EventID: nightcrier.DerivedID("alert", c.Name, string(raw)), Raw: groupOfOne(g, raw)}
	if len(raw) > dialect.Limit {
		d.Raw = raw[:headSize]
		return refusedDelivery(d, nightcrier.Errorf(nightcrier.Exhausted, "the alert is %d bytes long; at most %d are read", len(raw), dialect.Limit))
	}
	var a alert
	if err := json.Unmarshal(raw, &a); err != nil {
		return refusedDelivery(d, invalidError("alert", err))
	}
	a.Fingerprint = cmp.Or(a.Fingerprint, labelsHash(a.Labels))
	a.Status = cmp.Or(a.Status, firing)
	d.EventID = nightcrier.DerivedID("alert", c.Name, a.Fingerprint, a.StartsAt, string(a.Status))
	switch {
	case len(a.Labels) == 0:
		return refusedDelivery(d, nightcrier.Errorf(nightcrier.Invalid, "field labels is missing"))
	case a.Status != firing && a.Status != resolved:
		return refusedDelivery(d, nightcrier.Errorf(nightcrier.Invalid, "field status is %q, neither firing nor resolved", text.CutBytes(string(a.Status), 32)))
	}
	d.Reading = c.encodeReading(g, a)
	return d
}

// encodeReading says what an alert means in the words of our own faults.
func (c Cluster) encodeReading(g group, a alert) []byte {
	s := c.subjectOf(g, a)
	r := map[string]any{
		"cluster": c.Name, "faultId": a.Fingerprint, "faultType": s.faultType, "severity": a.Labels["severity"],
		"resource": s.resource, "container": s.container, "context": a.describeAlert(c.MaskLog), "timestamp": a.StartsAt,
	}
	if s.resource.Kind == nightcrier.AlertKind {
		r["owner"] = s.resource // nobody else can say it
	}
	if a.Status == resolved {
		r["condition"] = nightcrier.ConditionCleared
	}
	return encodeJSON(r)
}

// truncatedDelivery is the event that says that a group is not whole.
func (c Cluster) truncatedDelivery(g group, detail string) nightcrier.Delivery {
	raw := groupOfOne(g, nil)
	return nightcrier.Delivery{Source: Source, Cluster: c.Name, Dialect: alertDialect, EventID: nightcrier.DerivedID("truncated", c.Name, string(raw)),
		Raw: raw, Reading: encodeJSON(map[string]any{"cluster": c.Name, "error": detail})}
}

// groupOfOne is a group of one alert: what is kept can be read again.
func groupOfOne(g group, raw json.RawMessage) []byte {
	g.Alerts = []json.RawMessage{}
	if raw != nil {
		g.TruncatedAlerts, g.Alerts = nil, []json.RawMessage{raw}
	}
	return encodeJSON(g)
}

// describeAlert returns what an alert says to people: its annotations, then its labels.
func (a alert) describeAlert(maskLog func(string) string) string {
	var lines []string
	for _, name := range []string{"summary", "message", "description", "runbook_url"} {
		if v := a.Annotations[name]; v != "" {
			if maskLog != nil && strings.Contains(strings.TrimSpace(v), "\n") {
				v = maskLog(v)
			}
			lines = append(lines, text.CutWords(v, maxText))
		}
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if len(pairs) == maxPairs {
			pairs = append(pairs, "…")
			break
		}
		pairs = append(pairs, text.CutBytes(name, maxValue)+": "+text.CutWords(a.Labels[name], maxValue))
	}
	return strings.Join(append(lines, "Alert "+string(a.Status)+" with "+strings.Join(pairs, ", ")), "\n")
}

// labelsHash stands in for the fingerprint that old Alertmanagers do not send.
func labelsHash(labels map[string]string) string {
	sum := sha256.Sum256(encodeJSON(labels)) // the keys of maps are sorted
	return hex.EncodeToString(sum[:8])
}

// Foremost returns the alert of deliveries that an engineer would look at first,
// the most severe that fires, and how many others fire. It is an Invalid error
// when none does.
func Foremost(list []nightcrier.Delivery) (first nightcrier.Delivery, others int, err error) {
	var highest nightcrier.Severity
	why := nightcrier.Errorf(nightcrier.Invalid, "the payload holds no alert")
	found := 0
	for _, d := range list {
		if d.Reason != "" {
			why = nightcrier.Errorf(nightcrier.Invalid, "%s", d.Detail)
			continue
		}
		ev, err := dialect.Parse(d.Reading)
		switch {
		case err != nil:
			why = err
			continue
		case ev.Cleared || ev.Reason != "":
			why = nightcrier.Errorf(nightcrier.Invalid, "no alert of the payload fires")
			continue
		}
		if found == 0 || ev.Severity > highest {
			first, highest = d, ev.Severity
		}
		found++
	}
	if found == 0 {
		return first, 0, why
	}
	return first, found - 1, nil
}
