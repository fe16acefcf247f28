package strip

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/mask"
)

var masker = mask.New([]byte("key"))

func strip(in string, adjust func(*stripper)) (string, error) {
	s := &stripper{Options: Options{Mask: masker.Bytes}, in: []byte(in), embedded: true}
	if adjust != nil {
		adjust(s)
	}
	err := s.walkText()
	if err != nil {
		return "", err
	}
	return string(s.applyEdits()), nil
}

// A message of several lines is masked as a part of a log: the kubelet makes one of the end
// of a log, cut anywhere, and events quote them.
func TestMessagesAreExcerptsOfLogs(t *testing.T) {
	log := func(s *stripper) { s.MaskLog = masker.Log }
	open := `the end of its log:\n- value: swordfish77\n`
	tag := `the end of its log:\n- value: ` + masker.Tag("swordfish77") + `\n`
	for name, c := range map[string]struct{ in, want string }{
		"a terminated container": {`{"state":{"terminated":{"message":"` + open + `"}}}`, `{"state":{"terminated":{"message":"` + tag + `"}}}`},
		"an event":               {`{"kind":"Event","message":"` + open + `"}`, `{"kind":"Event","message":"` + tag + `"}`},
		"a newer event":          {`{"kind":"Event","note":"` + open + `"}`, `{"kind":"Event","note":"` + tag + `"}`},
		"with escapes":           {`{"message":"` + strings.ReplaceAll(open, `\n`, `\u000a`) + `"}`, `{"message":"` + tag + `"}`},
		"twice":                  {`{"message":"x","message":"` + open + `"}`, `{"message":"x","message":"` + tag + `"}`},
		"a table":                {`{"rows":[{"cells":["a","` + open + `",7]}]}`, `{"rows":[{"cells":["a","` + tag + `",7]}]}`},
		"a file":                 {`{"data":{"a.yaml":"` + open + `"}}`, `{"data":{"a.yaml":"` + open + `"}}`},
		"one line":               {`{"message":"- value: swordfish77\n"}`, `{"message":"- value: swordfish77\n"}`},
		"no text":                {`{"message":{"note":null}}`, `{"message":{"note":null}}`},
		"nothing open":           {`{"message":"a \u003c b\npanic: no such table\nexit 1\n"}`, `{"message":"a \u003c b\npanic: no such table\nexit 1\n"}`},
	} {
		if got, err := strip(c.in, log); err != nil || got != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
}

func TestStrip(t *testing.T) {
	meta := func(s *stripper) { s.Metadata, s.Restore = true, true }
	for name, c := range map[string]struct {
		in, want string
		adjust   func(*stripper)
	}{
		"nothing":              {in: `{"a":[1,-2.5e+3,true,null,"x\"\\A"],"b":{}}`, want: `{"a":[1,-2.5e+3,true,null,"x\"\\A"],"b":{}}`},
		"a Secret":             {in: `{"kind":"Secret","data":{"a":"eA=="},"type":"Opaque"}`, want: `{"kind":"Secret","data":{},"type":"Opaque"}`},
		"a kind told late":     {in: `{"data":{"a":{"data":[1]}},"stringData":"x","kind":"Secret"}`, want: `{"data":{},"stringData":{},"kind":"Secret"}`},
		"a Secret in a Secret": {in: `{"kind":"Secret","data":{"x":{"kind":"Secret","data":{"a":"b"}}}}`, want: `{"kind":"Secret","data":{}}`},
		"secrets of another API": {adjust: func(s *stripper) { s.Secrets = true },
			in:   `{"kind":"InternalSecretList","items":[{"metadata":{"name":"a"},"data":{"a":"eA=="},"stringData":{"b":"c"}},{"spec":{"data":[{"key":"k"}]}}]}`,
			want: `{"kind":"InternalSecretList","items":[{"metadata":{"name":"a"},"data":{},"stringData":{}},{"spec":{"data":[{"key":"k"}]}}]}`},
		"a list of Secrets":           {in: `{"items":[{"metadata":{"name":"a"},"data":{"a":"eA=="}},{"stringData":{"b":"c"}},1],"kind":"SecretList"}`, want: `{"items":[{"data":{},"metadata":{"name":"a"}},{"stringData":{}},1],"kind":"SecretList"}`},
		"a list of Secrets in a text": {in: `{"a":"{\"kind\":\"SecretList\",\"items\":[{\"data\":{\"b\":\"c\"}}]}"}`, want: `{"a":"{\"kind\":\"SecretList\",\"items\":[{\"data\":{}}]}"}`},
		"a manifest in YAML":          {in: `{"a":"kind: Secret\nstringData: {b: plain}\n"}`, want: `{"a":"kind: Secret\nstringData: ` + masker.Tag("{b: plain}") + `\n"}`},
		"no Secret":                   {in: `{"kind":"ConfigMap","data":{"a":"b"}}`, want: `{"kind":"ConfigMap","data":{"a":"b"}}`},
		"bytes":                       {in: `{"kind":"ConfigMap","binaryData":{"a":"eHh4"}}`, want: `{"kind":"ConfigMap","binaryData":{"a":"d2l0aGhlbGQ="}}`},
		"a Helm release":              {in: `{"data":{"release":"` + "H4sI" + strings.Repeat("A", 80) + `"}}`, want: `{"data":{"release":"d2l0aGhlbGQ="}}`},
		"metadata":                    {adjust: meta, in: `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}`, want: `{"kind":"Secret","apiVersion":"v1","metadata":{"annotations":{"guard.nightcrier.dev/data":"withheld"},"name":"a"}}`},
		"metadata with annotations": {adjust: meta, in: `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","annotations":{"b":"c","kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`,
			want: `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","annotations":{"guard.nightcrier.dev/data":"withheld","b":"c","kubectl.kubernetes.io/last-applied-configuration":"withheld"}}}`},
		"metadata with managers": {adjust: meta, in: `{"kind":"X","metadata":{"name":"a","annotations":{},"managedFields":[{"fieldsV1":{"f:data":{"f:pw":{},"f:user":{}}}},{"fieldsV1":{"f:data":{"f:pw":{}}}},{}]}}`,
			want: `{"kind":"X","metadata":{"name":"a","annotations":{"guard.nightcrier.dev/data":"withheld","guard.nightcrier.dev/keys":"pw,user"},"managedFields":[]}}`},
		"a list of metadata":  {adjust: meta, in: `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`, want: `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`},
		"a table":             {in: `{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Password"}],"rows":[{"cells":["password","hunter22"]},{"cells":["b",7,"c"]}]}`, want: `{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Password"}],"rows":[{"cells":["password","` + masker.Tag("hunter22") + `"]},{"cells":["b",7,"c"]}]}`},
		"a manifest":          {in: `{"a":"{\"kind\":\"Secret\",\"data\":{\"b\":\"c\"}}"}`, want: `{"a":"{\"kind\":\"Secret\",\"data\":{}}"}`},
		"a nest of manifests": {in: `{"a":` + nested(6, `{"kind":"Secret","data":{"b":"canary"}}`) + `}`, want: `{"a":` + nested(3, `withheld`) + `}`},
	} {
		got, err := strip(c.in, c.adjust)
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
}

func TestFieldsThatStandTwice(t *testing.T) {
	for _, in := range []string{
		`{"kind":"Secret","data":{"a":"b"},"kind":"Pod"}`, `{"kind":"Secret","data":{"a":"b"},"data":{}}`, `{"kind":"Secret","data":{"a":"b"},"d\u0061ta":{}}`,
	} {
		if got, err := strip(in, nil); err != errTwice {
			t.Errorf("%s: %v: %s", in, err, got)
		}
	}
}

// nested writes a text as a string in an object in a string, n times.
func nested(n int, text string) string {
	for range n {
		quoted := quoteJSON(text)
		text = `{"kind":"Secret-like","a":` + quoted + `}`
	}
	return quoteJSON(text)
}

// FuzzStrip: the walk accepts what the standard library does, and what it makes
// of it is JSON that holds no Secret's data.
func FuzzStrip(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"Secret","data":{"a":"b"}}`, `[1,2.5,-0,1e9,"\u00e9",true,false,null]`, `{"metadata":{"name":"x","annotations":{}},"kind":"PartialObjectMetadata","apiVersion":"a"}`,
		`{"columnDefinitions":[{"name":"token"}],"rows":[{"cells":["v9x8k2m4q7"]}]}`, `{"a":"kind: Secret\ndata:\n  a: b"}`, `{"binaryData":{"a":1},"managedFields":[{"fieldsV1":{"f:data":{"f:x":{}}}}]}`,
		`{`, `{"a":}`, `[1,]`, `{"a":1,}`, `01`, `1.`, `"\x"`, "\"\x01\"", `{"a" 1}`, ` {} x`, `nul`, `-`, `"\ud800"`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, meta := range []bool{false, true} {
			s := &stripper{Options: Options{Mask: masker.Bytes, MaskLog: masker.Log, Metadata: meta, Restore: meta}, in: in, embedded: true}
			err := s.walkText()
			if valid := json.Valid(in); valid != (err == nil) && err != errTooDeep && err != errTwice {
				t.Fatalf("%q: %v, JSON: %v", in, err, valid)
			}
			if err != nil {
				continue
			}
			out := s.applyEdits()
			if !json.Valid(out) {
				t.Fatalf("%q becomes %q", in, out)
			}
			var doc any
			if json.Unmarshal(out, &doc) == nil && !bytes.Contains(in, []byte(`"Kind"`)) {
				noData(t, in, doc)
			}
		}
	})
}

func noData(t *testing.T, in []byte, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			noData(t, in, e)
		}
	case map[string]any:
		if data, ok := v["data"].(map[string]any); ok && v["kind"] == "Secret" && len(data) > 0 {
			t.Fatalf("%q keeps data", in)
		}
		for _, e := range v {
			noData(t, in, e)
		}
	}
}
