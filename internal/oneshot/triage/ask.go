package triage

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// Meaning is what a question in words was taken to be about.
type Meaning struct {
	// Target is it: an object, a namespace, or the whole cluster where nothing of it is named.
	Target nightcrier.Resource `json:"target"`
	// Said are the words of the question that name it, "" for none.
	Said string `json:"said,omitempty"`
	// Corrected is that nothing is called so, and Target is called almost so.
	Corrected bool `json:"corrected,omitempty"`
	// Unread are the kinds that could not be listed: something of them may have been meant.
	Unread []string `json:"unread,omitempty"`
}

// askedKinds are the kinds whose names a question may have: of several with one name the first
// is meant.
var askedKinds = []string{"Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Service", "Ingress", "PersistentVolumeClaim", "Node", "Namespace"}

// Understand finds what in the cluster a question is about. Where several things are meant
// equally well, its Invalid error lists them.
func Understand(ctx context.Context, o Options, question, namespace string) (Meaning, error) {
	if question = strings.TrimSpace(question); question == "" || len(question) > nightcrier.MaxQuestion {
		return Meaning{}, nightcrier.Errorf(nightcrier.Invalid, "a question has 1 to %d bytes, and this one has %d", nightcrier.MaxQuestion, len(question))
	}
	if err := checkNamespace(namespace); err != nil {
		return Meaning{}, nightcrier.Errorf(nightcrier.Invalid, "-n: %w", err)
	}
	client, err := o.dialAsked()
	if err != nil {
		return Meaning{}, err
	}
	named := listing{client: client, question: readQuestion(question)}
	if m, err := named.written(ctx, question, namespace); err != nil || m.Said != "" {
		return m, err
	}
	if err := named.listKinds(ctx, askedKinds, namespace); err != nil {
		return Meaning{}, err
	}
	if len(named.objects()) == 0 { // a Pod's name is long, and is there for a moment
		if err := named.listKinds(ctx, []string{"Pod"}, namespace); err != nil {
			return Meaning{}, err
		}
	}
	return named.choose(namespace)
}

// written is the object that the question names as KIND/NAME, in the namespace that it names as
// well; with nothing Said where it does not.
func (l *listing) written(ctx context.Context, question, namespace string) (Meaning, error) {
	for word := range strings.FieldsSeq(question) {
		word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		kind, _, slash := strings.Cut(word, "/")
		if !slash || !isKnownKind(kind) {
			continue
		}
		res, err := ParseTarget([]string{word}, namespace)
		if err != nil || res.Namespace != "" {
			return Meaning{Target: res, Said: word}, err
		}
		err = l.listKinds(ctx, []string{"Namespace"}, "")
		for _, ns := range l.namespaces() {
			if ns.how == exactlySo && ns.object.Name != res.Name {
				res.Namespace = ns.object.Name
			}
		}
		return Meaning{Target: res, Said: word}, err
	}
	return Meaning{}, nil
}

// dialAsked connects to the cluster, or opens the snapshot, that is looked at.
func (o Options) dialAsked() (*kube.Client, error) {
	if o.Snapshot != nil {
		return o.Snapshot.Client(), nil
	}
	c := o.chooseCluster(o.Config)
	return kube.Dial(c.Kubeconfig, c.Context, 0)
}

// question is what was asked, as names are looked for in it.
type question struct {
	words   []string
	phrases []phrase
}

// phrase is a word of a question, or some of them as a name would join them.
type phrase struct {
	text string
	// words is how many it has, plain that it is a word that people ask with, kind the kind
	// that stands beside it.
	words int
	plain bool
	kind  string
}

// maxPhrase is how many words of a question can be one name.
const maxPhrase = 4

func readQuestion(s string) question {
	q := question{words: strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.'
	})}
	for i := range q.words {
		q.words[i] = strings.Trim(q.words[i], "-.")
	}
	q.words = slices.DeleteFunc(q.words, func(w string) bool { return w == "" })
	for i := range q.words {
		for n := 1; n <= maxPhrase && i+n <= len(q.words); n++ {
			p := phrase{text: strings.Join(q.words[i:i+n], "-"), words: n, plain: slices.ContainsFunc(q.words[i:i+n], isPlain)}
			for _, beside := range []int{i - 1, i + n} {
				if beside < 0 || beside >= len(q.words) {
					continue
				}
				if k, known := kinds.Meant(q.words[beside]); known && k.Name != "Service" { // which any workload is called
					p.kind = k.Name
				}
			}
			q.phrases = append(q.phrases, p)
		}
	}
	return q
}

// isPlain reports whether a word is one that people ask with: it is a name only where something
// is called exactly so.
func isPlain(word string) bool {
	_, kind := kinds.Meant(word)
	return kind || slices.Contains(plainWords, word)
}

// plainWords are what questions about a cluster are made of.
var plainWords = strings.Fields(`a about after again all also always an and any app application are as at back bad be because been before being
	broken but by can cannot cause check cluster come coming connect could crash crashed crashes crashing day dead degraded deploy deployed
	did die died dies do does doing down drop dropped dying error errors evicted every fail failed failing fails failure fault find fine fix for from
	get gets getting go goes going gone good got had hang hanging happen happened happening happens has have healthy help high hour how i if in into is issue
	issues it its keep keeps killed know last late latency like load log logs long look looks lot make many me memory might minute minutes morning much my near never
	new night no not now of off often oh ok on one oom oomkilled or our out over please pending place problem problems pull ready reason reach respond
	responding restart restarted restarting restarts run running runs see seem seems serve serving should show since slow slower so some start
	started starting starts state status still stop stopped stuck take taking tell than that the them then there these they thing things
	think this throw throwing time timeout timeouts timing to today too trouble unavailable under unhealthy unready until up us use used using version very wait
	waiting was we well went were what when where which while who why will with work working works wrong yesterday you your`)

// How well something is called what a question says.
const (
	notCalled = iota
	almost    // but for a mistake in writing
	partlySo  // some whole parts of its name
	exactlySo
)

// minMistaken is how long a word must be to be a mistake: a shorter one is like too much.
const minMistaken = 5

// calls says how well a phrase is the name of something. What a name says of its kind, as in
// checkoutservice, people leave out.
func (p phrase) calls(name string) int {
	short := name
	for _, kind := range []string{"service", "server", "svc", "app"} {
		short = cmp.Or(strings.TrimRight(strings.TrimSuffix(short, kind), "-"), short)
	}
	switch {
	case p.text == name:
		return exactlySo
	case p.plain:
		return notCalled
	case len(p.text) > 2 && (p.text == short || strings.Contains("-"+name+"-", "-"+p.text+"-")):
		return partlySo
	case len(p.text) < minMistaken:
		return notCalled
	case text.CountEdits(p.text, name) <= max(1, len(p.text)/4), text.CountEdits(p.text, short) <= max(1, len(p.text)/4):
		return almost
	}
	return notCalled
}

// candidate is what may be meant.
type candidate struct {
	object nightcrier.Object
	said   phrase
	how    int
	rank   int // of its kind
}

// better orders candidates, the best first: how exactly they are named, in how many words, as
// which kind. Equal ones are meant equally well.
func (c candidate) better(d candidate) int {
	return cmp.Or(cmp.Compare(d.how, c.how), cmp.Compare(d.said.words, c.said.words), cmp.Compare(c.rank, d.rank))
}

// listing is what a cluster has that a question may mean.
type listing struct {
	client   *kube.Client
	question question
	found    []candidate
	unread   []string
}

// listKinds looks through the names of some kinds; namespace bounds those that are in one.
func (l *listing) listKinds(ctx context.Context, names []string, namespace string) error {
	for _, name := range names {
		sel := kube.Selection{Kind: name}
		if kind := kinds.MustNamed(name); !kind.ClusterWide {
			sel.Namespace = namespace
		} else if namespace != "" && name == "Namespace" {
			continue
		}
		_, err := l.client.ListEach(ctx, sel, l.add(name))
		if nightcrier.CodeOf(err) == nightcrier.Refused && sel.Namespace == "" && !kinds.MustNamed(name).ClusterWide {
			sel.Namespace = l.client.Namespace() // where the credential is good for a namespace, for its own
			_, err = l.client.ListEach(ctx, sel, l.add(name))
		}
		switch code := nightcrier.CodeOf(err); {
		case err == nil:
		case code == nightcrier.Refused || code == nightcrier.NotFound:
			l.unread = append(l.unread, name)
		default:
			return err
		}
	}
	return nil
}

// add takes in one object of a list, where the question names it.
func (l *listing) add(kind string) func([]byte) error {
	return func(raw []byte) error {
		var o struct {
			Metadata struct {
				Name, Namespace string
				OwnerReferences []json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		best := candidate{object: nightcrier.Object{Kind: kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}}
		for _, p := range l.question.phrases {
			c := candidate{object: best.object, said: p, how: p.calls(o.Metadata.Name), rank: slices.Index(askedKinds, kind) + 1}
			if p.kind == kind {
				c.rank = 0
			}
			if len(o.Metadata.OwnerReferences) > 0 && c.how != exactlySo {
				continue // who owns it is called so as well
			}
			if c.how != notCalled && (best.how == notCalled || c.better(best) < 0) {
				best = c
			}
		}
		if best.how != notCalled {
			l.found = append(l.found, best)
		}
		return nil
	}
}

// objects are the candidates that are no namespaces, the best first.
func (l *listing) objects() (all []candidate) {
	for _, c := range l.found {
		if c.object.Kind != "Namespace" {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, candidate.better)
	return all
}

// namespaces are the candidates that are namespaces, the best first.
func (l *listing) namespaces() (all []candidate) {
	for _, c := range l.found {
		if c.object.Kind == "Namespace" {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, candidate.better)
	return all
}

// choose decides what is meant: an object, in the namespace that the question names as well or
// else that of the context, a namespace, or the whole cluster.
func (l *listing) choose(namespace string) (Meaning, error) {
	all, ns := l.objects(), candidate{}
	within := func(name string) bool {
		some := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.object.Namespace != name || c.said.text == name })
		if len(some) > 0 {
			all = some
		}
		return len(some) > 0
	}
	bounded := false
	for i, c := range l.namespaces() {
		if i == 0 {
			ns = c
		}
		bounded = bounded || c.how == exactlySo && within(c.object.Name)
	}
	if ns.how == exactlySo && !bounded && (len(all) == 0 || all[0].how < exactlySo || ns.rank == 0) {
		all = nil // it is the namespace that is meant
	}
	if len(all) == 0 {
		return l.chooseWhole(namespace, ns), nil
	}
	best := all[0]
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.better(best) != 0 })
	if len(all) > 1 {
		within(l.client.Namespace())
	}
	if len(all) > 1 {
		var names []string
		for _, c := range all[:min(maxNear, len(all))] {
			name := strings.ToLower(c.object.Kind) + "/" + c.object.Name
			if c.object.Namespace != "" {
				name += " -n " + c.object.Namespace
			}
			names = append(names, name)
		}
		return Meaning{}, nightcrier.Errorf(nightcrier.Invalid, "%q may be %s%s: say which, as KIND/NAME or with -n NAMESPACE", best.said.text, strings.Join(names, " or "), andMore(len(all)-len(names)))
	}
	o := all[0].object
	return Meaning{Target: nightcrier.Resource{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, Said: all[0].said.text, Corrected: all[0].how == almost, Unread: l.unread}, nil
}

// chooseWhole is what is looked at where no object is named.
func (l *listing) chooseWhole(namespace string, ns candidate) Meaning {
	m := Meaning{Target: nightcrier.Resource{Kind: kinds.Cluster}, Unread: l.unread}
	switch {
	case namespace != "":
		m.Target = nightcrier.Resource{Kind: "Namespace", Name: namespace}
	case ns.how != notCalled:
		m.Target, m.Said, m.Corrected = nightcrier.Resource{Kind: "Namespace", Name: ns.object.Name}, ns.said.text, ns.how == almost
	}
	return m
}
