package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/expr"
)

// Mapping says, in expressions, what the payloads of a sender mean.
type Mapping struct {
	// Name is the last part of the address, Token what the sender shows.
	Name, Token string
	// Items yields the list of what a payload reports, each then item; empty means
	// the payload itself. When yields whether an item is a fault, or the end of one.
	Items, When string
	// Cluster yields the name of a configured cluster; it is required.
	Cluster string
	// Kind, Namespace and Object name what is broken; without, it is the alert.
	Kind, Namespace, Object string
	// Type, Severity and Text say what is wrong with it.
	Type, Severity, Text string
	// Key yields what makes two payloads reports of one occurrence; empty means that
	// the item is the same. Cleared yields whether the fault is over.
	Key, Cleared string
}

// mapTime is how long looking at all items of a payload may take.
const mapTime = 10 * time.Second

// program is a mapping, compiled.
type program struct {
	name        string
	items, when *expr.Expression
	cleared     *expr.Expression
	texts       map[string]*expr.Expression
}

// The texts that a mapping yields, by the key of the configuration.
const (
	keyCluster, keyType, keySeverity, keyText, keyKey = "cluster", "type", "severity", "text", "key"
	keyKind, keyNamespace, keyObject                  = "object.kind", "object.namespace", "object.name"
)

func (m Mapping) compileProgram() (*program, error) {
	p := &program{name: m.Name, texts: map[string]*expr.Expression{}}
	for _, f := range []struct {
		key, source string
		kind        expr.Kind
		into        **expr.Expression
	}{
		{"items", m.Items, expr.List, &p.items}, {"when", m.When, expr.Bool, &p.when}, {"cleared", m.Cleared, expr.Bool, &p.cleared},
		{keyCluster, m.Cluster, expr.Text, nil}, {keyType, m.Type, expr.Text, nil}, {keySeverity, m.Severity, expr.Text, nil},
		{keyText, m.Text, expr.Text, nil}, {keyKey, m.Key, expr.Text, nil},
		{keyKind, m.Kind, expr.Text, nil}, {keyNamespace, m.Namespace, expr.Text, nil}, {keyObject, m.Object, expr.Text, nil},
	} {
		if f.source == "" {
			continue
		}
		e, err := expr.Payload.Compile(f.source, f.kind)
		switch {
		case err != nil:
			return nil, nightcrier.Errorf(nightcrier.Invalid, "webhook %s: %s %w", m.Name, f.key, err)
		case f.into != nil:
			*f.into = e
		default:
			p.texts[f.key] = e
		}
	}
	if p.texts[keyCluster] == nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "webhook %s: cluster is missing", m.Name)
	}
	return p, nil
}

// readPayload makes deliveries of a payload.
func (p *program) readPayload(ctx context.Context, payload []byte, known map[string]bool) batch {
	var body any
	if err := json.Unmarshal(payload, &body); err != nil {
		return unreadableBatch(p.name, "", payload, invalidError("payload", err))
	}
	items := []any{body}
	if p.items != nil {
		var err error
		if items, err = p.items.List(ctx, expr.Vars{"body": body, "item": nil}); err != nil {
			return unreadableBatch(p.name, "", payload, invalidError("items", err))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, mapTime)
	defer cancel()
	var b batch
	for _, item := range items {
		if ctx.Err() != nil {
			return unreadableBatch(p.name, "", payload, nightcrier.Errorf(nightcrier.Exhausted, "its %d items take longer than %s to look at", len(items), mapTime))
		}
		raw := payload
		if p.items != nil {
			raw = encodeJSON(item)
		}
		b.deliveries = append(b.deliveries, p.newDelivery(ctx, expr.Vars{"body": body, "item": item}, raw, known))
	}
	return b
}

// newDelivery returns what one item says.
func (p *program) newDelivery(ctx context.Context, v expr.Vars, raw []byte, known map[string]bool) nightcrier.Delivery {
	d := nightcrier.Delivery{Source: Source, Dialect: p.name, Raw: raw, EventID: nightcrier.DerivedID("item", p.name, string(raw))}
	m, err := p.evalItem(ctx, v)
	if err != nil {
		return refusedDelivery(d, err)
	}
	if !m.applies {
		d.Cluster = ""
		d.Reason, d.Detail = nightcrier.NotAFault, "when of webhook "+p.name+" is false"
		return d
	}
	if !known[m.text[keyCluster]] {
		return refusedDelivery(d, nightcrier.Errorf(nightcrier.Invalid, "it names the cluster %q, which is not configured", text.CutBytes(m.text[keyCluster], maxValue)))
	}
	d.Cluster = m.text[keyCluster]
	if key := m.text[keyKey]; key != "" {
		d.EventID = nightcrier.DerivedID("occurrence", p.name, d.Cluster, key)
		if m.cleared { // which may happen twice: a fault can be opened again
			d.EventID = nightcrier.DerivedID("cleared", p.name, d.Cluster, key, string(raw))
		}
	}
	d.Reading = m.encodeReading(p.name)
	return d
}

// mapped is what the expressions yield for one item.
type mapped struct {
	applies, cleared bool
	text             map[string]string
}

func (p *program) evalItem(ctx context.Context, v expr.Vars) (m mapped, err error) {
	m = mapped{applies: true, text: map[string]string{}}
	if p.when != nil {
		if m.applies, err = p.when.Bool(ctx, v); err != nil || !m.applies {
			return m, prefixError("when", err)
		}
	}
	if p.cleared != nil {
		if m.cleared, err = p.cleared.Bool(ctx, v); err != nil {
			return m, prefixError("cleared", err)
		}
	}
	for key, e := range p.texts {
		if m.text[key], err = e.Text(ctx, v); err != nil {
			return m, prefixError(key, err)
		}
	}
	return m, nil
}

func prefixError(key string, err error) error {
	if err == nil {
		return nil
	}
	return nightcrier.Errorf(nightcrier.CodeOf(err), "%s: %w", key, err)
}

// encodeReading says what was mapped in the words of our own faults.
func (m mapped) encodeReading(hook string) []byte {
	faultType := cmp.Or(makeWord(m.text[keyType]), hook)
	r := map[string]any{
		"cluster": m.text[keyCluster], "faultType": faultType, "severity": m.text[keySeverity], "context": m.text[keyText],
	}
	occurrence := ""
	if key := m.text[keyKey]; key != "" {
		occurrence = labelsHash(map[string]string{hook: key})
		r["faultId"] = occurrence
	}
	res := nightcrier.Resource{Namespace: m.text[keyNamespace], Name: m.text[keyObject]}
	k, known := kindOf(m.text[keyKind])
	switch {
	case res.Name == "" || m.text[keyKind] == "":
		res.Kind, res.Name = nightcrier.AlertKind, strings.Trim(faultType+"-"+text.KeepBytes(occurrence, 8), "-")
		r["owner"] = res
	case known:
		res.Kind, res.APIVersion = k.Name, k.APIVersion()
		if k.ClusterWide {
			res.Namespace = ""
		}
	default:
		res.Kind = m.text[keyKind]
	}
	r["resource"] = res
	if m.cleared {
		r["condition"] = nightcrier.ConditionCleared
	}
	return encodeJSON(r)
}
