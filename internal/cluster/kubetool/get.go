package kubetool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier"
)

var getTool = Tool{
	Name: "kubernetes_get", Title: "Kubernetes: Get",
	About: "Get one object in full, as YAML or JSON, or the part of it at a path. Of a Secret only its metadata is shown; secret-looking values are masked.",
	Params: Params{kindParam, groupParam, nameParam, namespaceParam,
		{Name: "path", Type: String, About: "Part to show, such as spec.template.spec.containers[0].resources"},
		{Name: "output", Type: String, Enum: []string{"yaml", "json"}, Default: "yaml", About: "Form of the answer"}},
	Output: SchemaOf[Object](nil), run: getObject,
}

func getObject(ctx context.Context, r *reading, a Args) error {
	k, doc, err := r.objectFromArgs(ctx, a)
	if err != nil {
		return err
	}
	data := &Object{Kind: k.Name, Namespace: TextAt(doc, "metadata", "namespace"), Name: a.String("name"), Path: a.String("path")}
	if p := a.String("path"); p != "" {
		if doc, err = followPath(doc, p); err != nil {
			return err
		}
	}
	text, err := encodeDocument(doc, a.String("output"))
	if err != nil {
		return err
	}
	r.writeTextf("%s", Fence(text))
	r.rest = "name a part with path" + describeParts(doc)
	if data.Value = doc; len(text) > r.set.cfg.MaxText {
		data.Value, data.Truncated = nil, true
	}
	r.data = data
	return nil
}

// objectFromArgs reads the object that the arguments name.
func (r *reading) objectFromArgs(ctx context.Context, a Args) (kind, any, error) {
	k, err := r.kindOf(ctx, a.String("kind"), a.String("group"))
	if err != nil {
		return k, nil, err
	}
	doc, err := r.readObject(ctx, k, a.String("namespace"), a.String("name"))
	return k, doc, err
}

// readObject reads an object; of a Secret its metadata alone.
func (r *reading) readObject(ctx context.Context, k kind, ns, name string) (any, error) {
	if err := checkNames(k.Name, ns, name); err != nil {
		return nil, err
	}
	accept := acceptJSON
	if k.isSecret() {
		accept = acceptMeta
	}
	return r.readRecorded(ctx, query{path: k.Path(ns) + "/" + url.PathEscape(name), accept: accept, max: maxObject, kind: "object"})
}

func encodeDocument(doc any, form string) (string, error) {
	var out []byte
	var err error
	if form == "json" {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(doc)
		out = b.Bytes()
	} else {
		out, err = yaml.Dump(doc, yaml.WithIndent(2), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
	}
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "write the object as %s: %w", form, err)
	}
	return string(out), nil
}

// followPath walks down a path of names and [indexes].
func followPath(doc any, path string) (any, error) {
	walked := ""
	for _, step := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[step]
			if !ok {
				return nil, nightcrier.Errorf(nightcrier.Invalid, "argument path: %s has no %q%s", cmp.Or(walked, "the object"), shortLine(step, 60), describeParts(doc))
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil, nightcrier.Errorf(nightcrier.Invalid, "argument path: %s is a list of %d, so behind it stands an index such as [0]", cmp.Or(walked, "the object"), len(v))
			}
			doc = v[i]
		default:
			return nil, nightcrier.Errorf(nightcrier.Invalid, "argument path: %s is a single value, with nothing below it", cmp.Or(walked, "the object"))
		}
		walked = strings.TrimPrefix(walked+"."+shortLine(step, 60), ".")
	}
	return doc, nil
}

// describeParts names what a document has at its top.
func describeParts(doc any) string {
	m, ok := doc.(map[string]any)
	if !ok || len(m) == 0 {
		return ""
	}
	var names []string
	for name := range m {
		names = append(names, shortLine(name, 60))
	}
	slices.Sort(names)
	if len(names) > 20 {
		names = append(names[:20], "…")
	}
	return fmt.Sprintf("; it has %s", strings.Join(names, ", "))
}

// Labels returns an object's labels, with a read that nothing records.
func (s *Set) Labels(ctx context.Context, res nightcrier.Resource) (map[string]string, error) {
	r := &reading{set: s}
	k, err := r.kindOf(ctx, res.Kind, res.APIVersion)
	if err != nil {
		return nil, err
	}
	if err := checkNames(k.Name, res.Namespace, res.Name); err != nil {
		return nil, err
	}
	doc, err := r.readMasked(ctx, query{path: k.Path(res.Namespace) + "/" + url.PathEscape(res.Name), accept: acceptMeta, max: maxObject})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	all, _ := ValueAt(doc, "metadata", "labels").(map[string]any)
	for key, v := range all {
		labels[key], _ = v.(string)
	}
	return labels, nil
}
