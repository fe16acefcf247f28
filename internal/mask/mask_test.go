package mask

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

func masker(known ...string) *Masker { return New([]byte("test key"), known...) }

var keyLines = strings.Repeat("aB3+", 16) + "\n" + strings.Repeat("xY7/", 16) + "\n"

func TestSecretsAreMasked(t *testing.T) {
	const s = "hunter2-Zx81"
	jwt := "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06c2EifQ.c2lnbmF0dXJl"
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\nabcd==\n-----END RSA PRIVATE KEY-----"
	for _, c := range []struct{ name, text, secret string }{
		{"url userinfo", "dial postgres://app:" + s + "@db:5432/shop?x=1", s},
		{"url password with at", "redis://:p@ss" + s + "@redis:6379", "p@ss" + s},
		{"url token", "https://abcdefghij0123456789@git.example/x", "abcdefghij0123456789"},
		{"mysql dsn", "dsn app:" + s + "@tcp(db:3306)/shop", s},
		{"env", "DB_PASSWORD=" + s, s},
		{"one that is replaced", "DB_PASSWORD_OLD=" + s, s},
		{"the second", "DB_PASSWORD2=" + s, s},
		{"the second, apart", "password-2: " + s, s},
		{"the second version", "rootPasswordV2: " + s, s},
		{"the second in JSON", `{"password_2":"` + s + `"}`, s},
		{"the second in a list", `{"name":"API_TOKEN_1","value":"` + s + `"}`, s},
		{"yaml with a tag", "password: !!str " + s, s},
		{"yaml with an anchor", "password: &db " + s + "\nother: *db", s},
		{"yaml with both, in quotes", "password: !!str &db '" + s + "'", s},
		{"yaml block with a tag", "password: !!str |\n  " + s + "\n", s},
		{"begins as a tag", "password: !" + s, s},
		{"env in json", `{"name":"DB_PASSWORD","value":"` + s + `"}`, s},
		{"env in indented json", "{\n  \"name\": \"API_TOKEN\",\n  \"value\": \"" + s + "\"\n}", s},
		{"env in yaml", "- name: DB_PASSWORD\n  value: " + s + "\n", s},
		{"env in describe", "      DB_PASSWORD:  " + s + "\n", s},
		{"json", `{"password":"` + s + `"}`, s},
		{"json in json", `{"msg":"{\"password\":\"` + s + `\"}"}`, s},
		{"quoted with spaces", `password="correct horse battery"`, "correct horse battery"},
		{"escaped quote", `{"password":"a\"` + s + `"}`, s},
		{"weak word at the end of a line", "password: changeme", "changeme"},
		{"flag", "--token=" + s, s},
		{"key value dsn", "host=db user=app password=" + s + " sslmode=disable", s},
		{"ado", "Server=db;Pwd=" + s + ";", s},
		{"azure", "AccountName=x;AccountKey=abcd1234+/==;Endpoint", "abcd1234+/=="},
		{"query", "GET /x?api_key=" + s + "&n=1", s},
		{"aws secret", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
		{"aws id", "using AKIAIOSFODNN7EXAMPLE now", "AKIAIOSFODNN7EXAMPLE"},
		{"basic", "Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"},
		{"bearer header", `"Authorization":"Bearer abcdef"`, "abcdef"},
		{"authorization in a log line", "authorization=Bearer abc12345 status=200", "abc12345"},
		{"authorization without a scheme", "Authorization: abc123secret", "abc123secret"},
		{"bearer in text", "sent Bearer abc.def-ghi_0123456789", "abc.def-ghi_0123456789"},
		{"cookie", "Cookie: sid=0123; theme=dark\nHost: x", "sid=0123; theme=dark"},
		{"jwt", "token is " + jwt + " ok", jwt},
		{"pem", pem, "MIIEowIBAAKCAQEA1234"},
		{"pem in json", strings.ReplaceAll(pem, "\n", `\n`), "MIIEowIBAAKCAQEA1234"},
		{"pem cut", "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\nab", "MIIEowIBAAKCAQEA1234"},
		{"pem in base64", "x: " + base64.StdEncoding.EncodeToString([]byte(pem)), "UFJJVkFURSBLRVktLS0tLQ"},
		{"kubeconfig", "    client-key-data: LS0tLS1CRUdJTiBFQyBQ", "LS0tLS1CRUdJTiBFQyBQ"},
		{"kubeconfig token", "    token: abcdef.0123456789abcdef", "abcdef.0123456789abcdef"},
		{"slack token", "xoxb-123456789012-abcdefghijkl", "xoxb-123456789012-abcdefghijkl"},
		{"slack webhook", "https://hooks.slack.com/services/T0/B0/abcdefgh", "services/T0/B0/abcdefgh"},
		{"github", "clone ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
		{"anthropic", "sk-ant-api03-abcdefghijklmnop", "sk-ant-api03-abcdefghijklmnop"},
		{"list under a key", `{"password":["` + s + `"]}`, s},
		{"list under a key, indented", "{\"password\": [\n  \"" + s + "\"\n]}", s},
		{"value below a key", `{"password":{"value":"` + s + `"}}`, s},
		{"value below a key, indented", "{\"password\": {\n  \"value\": \"" + s + "\"\n}}", s},
		{"value below a key in yaml", "password:\n  value: " + s, s},
		{"value below a key in yaml in json", `{"a":"password:\n  value: ` + s + `\n"}`, s},
		{"comma in a password", "password=ab," + s, s},
		{"after an escaped break", `{"m":"x\nghp_abcdefghijklmnopqrstuvwxyz0123456789"}`, "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
		{"after an escape of an escape", `x\\tAKIAIOSFODNN7EXAMPLE`, "AKIAIOSFODNN7EXAMPLE"},
		{"after an escaped bracket", `\\u003csk-ant-api03-abcdefghijklmnop\\u003e`, "sk-ant-api03-abcdefghijklmnop"},
		{"jwt after an escaped break", `x\\n` + jwt, jwt},
		{"pattern after an escaped break", `x\\nglc_aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY`, "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY"},
		{"curl", "curl -u admin:" + s + " https://api", s},
		{"curl, long", `curl --user 'admin:` + s + `' https://api`, s},
		{"flag and value", "redis-cli --password " + s + " shutdown", s},
		{"weak flag and value", "x --api-token '" + s + "' y", s},
		{"element", "<id>x</id><password>correct horse</password>", "correct horse"},
		{"element in json", `"\\u003cpassword\\u003eswordfish\\u003c/password\\u003e"`, "swordfish"},
		{"attribute", `<bean><property name="password" value="` + s + `"/>`, s},
		{"pem without its beginning", keyLines + "abcd==\n-----END RSA PRIVATE KEY-----", keyLines[:64]},
		{"pem without its beginning, in json", strings.ReplaceAll(keyLines+"abcd==\n-----END PRIVATE KEY-----", "\n", `\\n`), keyLines[65:129]},
		{"pem without its beginning, with times", strings.ReplaceAll("\n"+keyLines+"abcd==\n-----END PRIVATE KEY-----", "\n", "\n2026-11-20T10:00:00Z "), keyLines[:64]},
		{"pass", "RABBITMQ_DEFAULT_PASS=" + s, s},
		{"pass in json", `{"name":"DB_PASS","value":"` + s + `"}`, s},
		{"pass, a word", "SMTP_PASS: changeme", "changeme"},
		{"pass in camel case", `{"dbPass":"` + s + `"}`, s},
		{"pass alone", "user=app pass=" + s, s},
		{"pass in properties", "spring.mail.pass=" + s, s},
		{"pass after a break", `{"a":"x\npass=` + s + `"}`, s},
		{"pw", `{"name":"LDAP_BIND_PW","value":"swordfish"}`, "swordfish"},
		{"redis", "bind 0.0.0.0\nrequirepass swordfish\n", "swordfish"},
		{"redis in json", `{"redis.conf":"bind 0.0.0.0\nmasterauth swordfish\nport 1"}`, "swordfish"},
		{"redis argument", "redis-server --requirepass " + s, s},
		{"arguments", `{"args":["--requirepass","` + s + `"]}`, s},
		{"arguments, password", `{"args":["--password", "` + s + `"]}`, s},
		{"netrc", "machine git.example login bot password swordfish\n", "swordfish"},
		{"netrc over lines", "machine git.example\n  login bot\n  password swordfish\n", "swordfish"},
		{"netrc in json", `{".netrc":"machine git.example login bot password swordfish\n"}`, "swordfish"},
		{"pgpass", "db:5432:*:app:swordfish\n", "swordfish"},
		{"docker", `{"auths":{"r.example":{"auth":"Ym90Omh1bnRlcjJodW50ZXIy"}}}`, "Ym90Omh1bnRlcjJodW50ZXIy"},
		{"docker in json", `{"config.json":"{\"auths\":{\"r.example\":{\"auth\":\"Ym90Omh1bnRlcjJodW50ZXIy\"}}}"}`, "Ym90Omh1bnRlcjJodW50ZXIy"},
		{"docker in yaml", "auth: Ym90Omh1bnRlcjJodW50ZXIy", "Ym90Omh1bnRlcjJodW50ZXIy"},
		{"nginx", `proxy_set_header Authorization "Basic Ym90Omh1bnRlcjI=";`, "Ym90Omh1bnRlcjI="},
		{"nginx in json", `{"snippet":"proxy_set_header Authorization \"Basic Ym90Omh1bnRlcjI=\";"}`, "Ym90Omh1bnRlcjI="},
		{"nginx, a key", "proxy_set_header X-Api-Key " + s + ";", s},
		{"htpasswd", "admin:$apr1$Zb9x1c2v$k3j4h5g6f7d8s9a0q1w2e3", "k3j4h5g6f7d8s9a0q1w2e3"},
		{"bcrypt", "admin:$2y$05$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234", "ABCDEFGHIJKLMNOPQRSTUVWXYZ01234"},
		{"azure sas", "https://a.blob.core.windows.net/c?sv=2022-11-02&sig=q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ%3D", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ"},
		{"azure sas in json", `{"u":"https://a.blob.core.windows.net/c?sv=1\u0026sig=q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ%3D"}`, "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ"},
		{"aws presigned", "https://b.s3.amazonaws.com/k?X-Amz-Signature=0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"},
		{"rails", "RAILS_MASTER_KEY=d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e"},
		{"rails base", "SECRET_KEY_BASE: d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e"},
		{"laravel", `{"name":"APP_KEY","value":"base64:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="}`, "q83vEjRWeJ"},
		{"sql", "CREATE USER app IDENTIFIED BY 'swordfish';", "swordfish"},
		{"last line of a pem", "abcdefgh1234==\n-----END EC PRIVATE KEY-----", "abcdefgh1234=="},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := masker()
			got := m.String(c.text)
			if strings.Contains(got, c.secret) || !strings.Contains(got, tagOpen) {
				t.Errorf("secret survived in %q", got)
			}
			if m.Count() == 0 {
				t.Error("count is 0")
			}
			if again := m.String(got); again != got {
				t.Errorf("not idempotent:\n %q\n %q", got, again)
			}
		})
	}
}

func TestOrdinaryTextIsKept(t *testing.T) {
	for _, text := range []string{
		"pod shop/cart-7d4b9c6f5d-x2x7q of Deployment cart restarted 12 times",
		"uid 0191c1e2-7b3a-7c11-9a9b-0123456789ab",
		"nginx@sha256:0000000000000000000000000000000000000000000000000000000000000000",
		"DB_PASSWORD:  <set to the key 'password' in secret 'db'>  Optional: false",
		`{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"key":"password","name":"db"}}}`,
		`couldn't find key password in Secret shop/db`,
		"FATAL: password authentication failed for user \"app\"",
		"invalid token: unexpected end of input",
		"parse error near token: expected",
		"automountServiceAccountToken: false",
		"tokenExpirationSeconds: 3607",
		"password: ${DB_PASSWORD}",
		"checksum/secret: 0123456789abcdef0123456789abcdef",
		"imagePullSecrets: [regcred]",
		"secret: regcred", "existingSecret: cart-db-7f9a1b2c", "auth.existing_secret=cart-db-v2",
		"password1 and password2 differ", "tokens_2: 4096", "token_old: 4096",
		"PWD=/var/lib/app",
		"https://registry.example:5000/team/app:v1.2.3",
		"user@example.com wrote to git@git.example:team/app",
		"time=12:30:00 level=info msg=\"key rotated\" key=orders",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"author: ordinary words here",
		"Authorization: denied by policy of the cluster",
		"Cookie: none was sent",
		"max_tokens: 16384, input tokens=812",
		"Bearer authentication is required by the server",
		`{"password":{"valueFrom":{"secretKeyRef":{"name":"db","key":"password"}}}}`,
		`{"password":[]}`, `{"password":{}}`, "password:\n  valueFrom: x", "password:\nname: db-0",
		"docker run -u 1000:1000 --user nginx:nginx image",
		"usage: --password string  the password of the user",
		"set --token or --password before",
		"if len(password)>8 then",
		"<password></password>",
		"it ended with\n-----END CERTIFICATE-----",
		"passed: 12345678a of them", "bypass=enabled1234", "by-pass: enabled1234", "BYPASS_CACHE: enabled1234", "byPass: enabled1234", "compass: north12345", "COMPASS=north12345", "encompass: all1234567",
		"author: anna1234567", "authority: ca-12345678", "auth: enabled", "auth: basic", `"auth":"kubernetes"`, "authn: abc:def1234", "oauth: dGVzdDp0ZXN0", "authentication: Ym90Omh1bnRlcjI=",
		"--- PASS: TestCartRestarts12 (0.00s)", "PASS: TestCartRestarts12", "first pass: ok", "pass: 12", "pass rate: 0.9", "checks_pass: 12", "the pass=yes", "pass --verbose1234",
		"pw: 12", "spw: abcdefgh1234", "pwm: 12345678a", "the basic authentication of it", "Basic auth1234", "basic knowledge", "Basic: 12345678",
		"requirepass is not set by the operator", "no requirepass in the config", "masterauth directive missing here", "password incorrect", "password authentication1 failed", "a password changed1234 yesterday",
		"machine db-0 is not ready, password will expire",
		"sig=0123456789abcdef0123456789abcdef", "?sig=abc", "assignature=0123456789abcdef0123456789abcdef", "dial tcp 10.0.0.1:5432: connect: refused", "db:5432:5432", "app_key: orders", "master_key: id", "costs $2a$", "an Identified by name",
		`{"args":["--password","$(DB_PASSWORD)"]}`, `{"args":["--token","--verbose12345"]}`, `{"args":["--password"],"b":"abcdefgh1234"}`, "x-api-key header12345678-missing"[:16],
		`C:\temp\ntask-0123456789abcdef`,
		"task-0123456789abcdef0123456789abcdef01",
	} {
		if got := masker().String(text); got != text {
			t.Errorf("destroyed:\n  %q\n  %q", text, got)
		}
	}
}

func TestKnownValues(t *testing.T) {
	const v = "Tr0ub4dor&3 x"
	m := masker(v, "short")
	tag := m.Tag(v)
	for _, text := range []string{
		"echo " + v,
		"b64 " + base64.StdEncoding.EncodeToString([]byte(v)),
		"b64 inside " + base64.StdEncoding.EncodeToString([]byte("user:"+v+":rest of it")),
		"b64 inside " + base64.StdEncoding.EncodeToString([]byte("auser:"+v+":rest of it")),
		"b64 inside " + base64.URLEncoding.EncodeToString([]byte("anuser:"+v+":rest of it")),
		"query Tr0ub4dor%263+x",
		"hex 547230756234646f7226332078",
	} {
		if got := m.String(text); !strings.Contains(got, tag) {
			t.Errorf("%q became %q, without %s", text, got, tag)
		}
	}
	if got := m.String("a short word"); got != "a short word" {
		t.Errorf("a short known value destroyed text: %q", got)
	}
}

func TestWithMoreKnownValues(t *testing.T) {
	m := masker("the-first-value")
	both := m.With("the-second-value", "the-first-value-and-more")
	if got, want := both.String("the-first-value-and-more the-second-value the-first-value"), m.Tag("the-first-value-and-more")+" "+m.Tag("the-second-value")+" "+m.Tag("the-first-value"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := m.String("the-second-value"); got != "the-second-value" || m.Count() != 3 {
		t.Errorf("the first masker made %q, and counts %d", got, m.Count())
	}
}

func TestTagsAreStableAndKeyed(t *testing.T) {
	a, b := New([]byte("a")), New([]byte("b"))
	if first := a.String("password=x1"); first != a.String("password=x1") {
		t.Error("the same secret has two tags")
	}
	if a.Tag("hunter2") == b.Tag("hunter2") {
		t.Error("the tag does not depend on the key")
	}
	if a.Tag("hunter2") == a.Tag("hunter3") {
		t.Error("two secrets share a tag")
	}
}

func TestSecretObjects(t *testing.T) {
	m := masker()
	const doc = `{"apiVersion":"v1","items":[{"data":{"user":"c2hvcA==","blob":"cGxhaW4gd29yZHM="},` +
		`"metadata":{"annotations":{"last-applied":"{\"data\":{\"blob\":\"cGxhaW4gd29yZHM=\"}}"},"name":"db"},"kind":"Secret"},` +
		`{"kind":"ConfigMap","data":{"greeting":"hello there"}}],"kind":"List"}`
	got := m.String(doc)
	if strings.Contains(got, "cGxhaW4gd29yZHM=") || strings.Contains(got, "c2hvcA==") {
		t.Errorf("data survived: %s", got)
	}
	if !strings.Contains(got, "hello there") || !strings.Contains(got, `"name":"db"`) {
		t.Errorf("other objects changed: %s", got)
	}
	if !json.Valid([]byte(got)) {
		t.Errorf("no longer JSON: %s", got)
	}

	const yaml = "apiVersion: v1\nkind: Secret\ndata:\n  user: c2hvcA==\n  big: |\n    some words\nmetadata:\n  name: db\n---\nkind: ConfigMap\ndata:\n  a: kept\n"
	got = m.String(yaml)
	for _, gone := range []string{"c2hvcA==", "some words"} {
		if strings.Contains(got, gone) {
			t.Errorf("%q survived: %s", gone, got)
		}
	}
	for _, kept := range []string{"a: kept", "name: db"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%q was lost: %s", kept, got)
		}
	}
	if again := m.String(got); again != got {
		t.Errorf("not idempotent:\n%s\n%s", got, again)
	}
	for _, other := range []string{
		"kind:  Secret\nstringData:\n  a: plain words\n", "kind: \"Secret\"\nstringData:\n  a: plain words\n", "\"kind\": 'Secret'\ndata:\n  a: plain words\n",
		"# kinds\nkind:\tSecret\ndata:\n  a: plain words\n", `[{"kind":"Secret","stringData":{"a":"plain words"}}]`,
	} {
		if got := m.String(other); strings.Contains(got, "plain words") {
			t.Errorf("%q became %q", other, got)
		}
	}
}

// What stands below data and stringData of a Secret is masked, however that is written.
func TestSpellingsOfSecrets(t *testing.T) {
	const v = "canary22"
	for _, text := range []string{
		"kind: Secret\nstringData: {value: " + v + "}\n",
		"kind: Secret\nstringData: {a: 'it''s {', b: \"}\", value: " + v + "}\nmetadata: {name: x}\n",
		"kind: Secret\nstringData: {\na: b,\nvalue: " + v + "\n}\nmetadata: {name: x}\n",
		"kind: Secret\nstringData: {value: " + v + "\n",
		"kind: Secret\n\"data\":\n  value: " + v + "\n",
		"kind: Secret\n'data' :\n  value: " + v + "\n",
		"kind: Secret\n\"d\\u0061ta\":\n  value: " + v + "\n",
		"kind: Secret\ndata: # the data\n  value: " + v + "\n",
		"kind: Secret\ndata: !!map\n  value: " + v + "\n",
		"kind: Secret\ndata: &d\n  value: " + v + "\n",
		"kind: Secret\nx: &d\n  value: " + v + "\ndata: *d\n",
		"x: &d {value: " + v + "}\nkind: Secret\ndata: *d\n",
		"x:\n- &d " + v + "\nkind: Secret\ndata:\n  a: *d\n",
		"kind: Secret\n? data\n: value: " + v + "\n",
		"kind: Secret\n? data\n:\n  value: " + v + "\n",
		"kind: Secret\n? \"data\" # c\n: {value: " + v + "}\n",
		"kind: Secret\ndata:\n  ? value\n  : " + v + "\n",
		"kind: Secret\ndata:\n\tvalue: " + v + "\n",
		"kind: Secret\ndata:\n  a: x\n# a comment\n  value: " + v + "\n",
		"kind: Secret\ndata:\n{{- if .x }}\n  value: " + v + "\n{{- end }}\n",
		"kind: Secret\ndata: {{ toYaml .x }}\n  value: " + v + "\n",
		"kind: Secret\ndata:\n  value: |\n    a:\n    " + v + ":\n    x: " + v + "\n",
		"kind: Secret\ndata:\n  value: |2- # c\n    x: " + v + "\n  b: c\n",
		"kind: Secret\ndata:\n  value: \"some\n" + v + "\"\n",
		"kind: Secret\ndata:\n  value: 'some\n" + v + "'\n",
		"kind: Secret\ndata:\n  value: some\n    " + v + "\n",
		"kind: Secret\ndata:\n  value:\n    " + v + "\n",
		"kind: Secret\ndata:\n  value: {a: [\n" + v + "]}\n",
		"kind: Secret\ndata:\n  value:\t" + v + "\n",
		"kind: Secret\r\ndata:\r\n  value: " + v + "\r\n",
		"kind: !!str Secret\ndata:\n  value: " + v + "\n",
		"kind: &k Secret\ndata:\n  value: " + v + "\n",
		"kind:\n  Secret\ndata:\n  value: " + v + "\n",
		"kind: # c\n  Secret\ndata:\n  value: " + v + "\n",
		"kind: >-\n  Secret\ndata:\n  value: " + v + "\n",
		"? kind\n: Secret\ndata:\n  value: " + v + "\n",
		"- data:\n    value: " + v + "\n  kind: Secret\n",
		"kind: SecretList\nitems:\n- data:\n    value: " + v + "\n",
		"kind: SecretList\nitems: [{data: {value: " + v + "}}]\n",
		"kind: List\nitems:\n- kind: Secret\n  stringData:\n    value: " + v + "\n",
		"{kind: Secret, data: {value: " + v + "}}",
		"{kind: Secret, data: {a: b}, stringData: {value: " + v + "}}",
		"{\n  \"kind\": \"Secret\",\n  \"data\": {\n    \"value\": \"" + v + "\"\n  },\n}",
		`{"kind":"SecretList","items":[{"metadata":{"name":"x"},"data":{"value":"` + v + `"}}]}`,
		`{"kind":"Secret","data":{"a":["` + v + `"]}}`,
		`{"kind":"ConfigMap","data":{"x":"kind: Secret\nstringData: {value: ` + v + `}\n"}}`,
		`{"kind":"ConfigMap","data":{"x":"{\"kind\":\"SecretList\",\"items\":[{\"data\":{\"a\":\"` + v + `\"}}]}"}}`,
		`"kind: Secret\nstringData:\n  value: ` + v + `\n"`,
		"2026-11-20T10:00:00Z {\"msg\":\"kind: Secret\\nstringData:\\n  value: " + v + "\"}\n2026-11-20T10:00:01Z {\"msg\":\"well\"}\n",
		"applying {\"kind\":\"Secret\",\"data\":{\"value\":\"" + v + "\"}} now\n",
		`{"a":"applying {\"kind\":\"Secret\",\"data\":{\"value\":\"` + v + `\"}} now"`,
	} {
		m := masker()
		got := m.String(text)
		if strings.Contains(got, v) {
			t.Errorf("%q became %q", text, got)
		}
		if again := m.String(got); again != got {
			t.Errorf("not idempotent:\n %q\n %q", got, again)
		}
		if m.Count() == 0 || json.Valid([]byte(text)) != json.Valid([]byte(got)) {
			t.Errorf("%q became %q, count %d", text, got, m.Count())
		}
	}
	const kept = "kind: Secret\nmetadata:\n  name: db\n  labels: {my-data: x, app/data: y}\ndata: {}\ntype: Opaque\n---\nkind: ConfigMap\ndata:\n  a: b\nx: &y z\n"
	if got := masker().String(kept); got != kept {
		t.Errorf("destroyed: %q", got)
	}
}

// FuzzSecretTexts: what a parser finds below data of a Secret is not left.
func FuzzSecretTexts(f *testing.F) {
	for _, text := range []string{
		"kind: Secret\ndata:\n  a: canary\n", "kind: Secret\nstringData: {a: canary, b: 'c'}\n", "x: &y canary\nkind: Secret\ndata: {a: *y}\n", "kind: Secret\ndata:\n  a: |\n    canary\n",
		"- kind: Secret\n  data:\n    a: \"x\\\n      canary\"\n", "kind: Secret\n? data\n: ? a\n  : canary\n", "kind: SecretList\nitems: [data: {a: canary}]\n", "{kind: Secret, data: {a: [canary]}, x: 1}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := masker().String(text)
		var doc yaml.Node
		if strings.Count(text, "canary") != 1 || !strings.Contains(got, "canary") || yaml.Unmarshal([]byte(text), &doc) != nil {
			return
		}
		if secretHolds(&doc, "canary", 0) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// secretHolds reports whether a value below data of a Secret holds a word, as far as it
// looks.
func secretHolds(n *yaml.Node, word string, depth int) bool {
	if depth > 50 {
		return false
	}
	secret := false
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		// A key that is spelled in escapes is no kind of ours.
		secret = secret || n.Content[i].Value == "kind" && n.Content[i].Style == 0 && strings.HasPrefix(n.Content[i+1].Value, "Secret") && n.Content[i+1].Style == 0 && n.Content[i+1].Kind == yaml.ScalarNode
	}
	for i := 0; secret && i+1 < len(n.Content); i += 2 {
		steps := 1000
		if key := n.Content[i].Value; (key == "data" || key == "stringData") && holds(n.Content[i+1], word, &steps) {
			return true
		}
	}
	for _, c := range n.Content {
		if secretHolds(c, word, depth+1) {
			return true
		}
	}
	return false
}

// holds reports whether a value holds a word; what is a key is none.
func holds(n *yaml.Node, word string, steps *int) bool {
	if *steps--; *steps < 0 {
		return false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode {
		return strings.Contains(n.Value, word)
	}
	for i, c := range n.Content {
		if (n.Kind != yaml.MappingNode || i%2 == 1) && holds(c, word, steps) {
			return true
		}
	}
	return false
}

// JSON stays JSON, and nothing of it is lost, whatever its strings look like.
func TestJSONStaysJSON(t *testing.T) {
	const s = "hunter2-Zx81"
	for name, c := range map[string]struct{ text, want string }{
		"number":                   {`{"password":12345678,"keep":"k"}`, "12345678"},
		"number and blanks":        {`{"password" : -12.5e7 ,"keep":"k"}`, "12.5e7"},
		"number in a string":       {`{"x":"{\"password\":12345678}","keep":"k"}`, "12345678"},
		"variable":                 {`{"keep":"k","env":[{"name":"DB_PASSWORD","value":12345678}]}`, "12345678"},
		"header":                   {`{"authorization":1234567890,"keep":"k"}`, "1234567890"},
		"a string ends in a key":   {`{"a":"wrong password:","b":"` + s + `","password":"` + s + `","keep":"k"}`, ""},
		"a key ends in a colon":    {`{"my password:":"` + s + `","keep":"k"}`, s},
		"a list behind a key":      {`[{"a":"password="},{"password":"` + s + `","keep":"k"}]`, s},
		"a variable, then":         {`{"a":"password:","env":[{"name":"DB_PASSWORD","value":"` + s + `"}],"keep":"k"}`, s},
		"half a private key":       {`{"a":"-----BEGIN PRIVATE KEY-----","keep":"k","z":"-----"}`, ""},
		"half a private key, then": {`[{"a":"-----BEGIN PRIVATE KEY-----\nMIIE"},{"keep":"k"},{"a":"-----"}]`, "MIIE"},
		"a quote that stays open":  {`{"a":"password='` + s + `\\","keep":"k","z":"it's"}`, s},
	} {
		t.Run(name, func(t *testing.T) {
			m := masker()
			got := m.String(c.text)
			if !json.Valid([]byte(got)) || !strings.Contains(got, `"keep":"k"`) {
				t.Errorf("%s became %s", c.text, got)
			}
			if c.want != "" && (strings.Contains(got, c.want) || !strings.Contains(got, tagOpen)) {
				t.Errorf("%s became %s", c.text, got)
			}
			if again := m.String(got); again != got {
				t.Errorf("%s became %s the second time", got, again)
			}
		})
	}
}

// hostileUnits invite a scanner to look at the same bytes again and again.
var hostileUnits = []string{
	"token=", "password:", "://", "://a:", "-----BEGIN ", "-----BEGIN PRIVATE KEY", "eyJ", "eyJaaaaaaaaaaaaaa.", "cookie:",
	"authorization: ", "authorization:", "cookie:a=", "Bearer ", "xoxb-", "AKIA", "@tcp(", `token:"`, `token:\"`, "LS0tLS1CRUdJTi", `"name":"token","value"`, "sk-", "a",
	"hooks.slack.com/", "‹secret:", "‹secret:3f9a›", "token: a,", "\\\\\\\\", "'", "pwd=/",
	"-----END PRIVATE KEY-----", "\n-----END PRIVATE KEY-----", "-u a:", " -u a:", "--password ", "password>", "--token a1", "_pass", "_pass=", "pw=", "requirepass ", "login password ", "auth", "auth: ", "basic ", "x-api-key ", "identified by '", "&sig=", "-sig=", ":5432:a", ":5432:", "$2a$", "--password\",\"", "by",
	"passwords: [", "passwords: [a, ", "passwords: {a: ", "passwords:\n- ", "passwords:\n- abcd1234\n", "credentials: [[[[", "password: |\n ", "password:\n", " password: |\n", "password: \\n ", `"name":"password",`, `{"name":"password","a":`, `"value":"x","name":"password"`, `"value":"`, "value: x\nname: password\n", "- name: password\n  a: b\n",
	"cGFzc3dvcmQ6IHN3b3JkZmlzaA==", "cGFzc3dvcmQ6IHN3b3JkZmlzaA", "cGFz", "\x1b[36m", "password\x1b[0m", "\\u001b[0m", "://u:p/", "://u:p/a@", "://:/@", " -p", "mysql -p", "mysql -pabcd ", "- -p\n", `"-p","`, "redis-cli -a ", " -u a:abcd", "htpasswd -b ", "add_user ", "-passin pass:", "create user password ", "create user password '", "identified by ", "identified with ",
	"password | ", "| password |\n", "| password |\n|---|\n", "A  PASSWORD\n", "A  PASSWORD\nabcd1234  PASSWD  \n", "PASSWORD  ", "PASSWORD\tPASSWD\t", "password -> ", "PASSWORD  abcd1234\nabcd1234  PASSWORD\n",
	"password", "https%3A%2F%2Fa%3A", "%3a%2f%2f", "a:b@c", "a:b@c:12 ", "oracle:thin:a/", "sqlplus a/", "/api/webhooks/", "api.telegram.org/bot", "1:AA", "secret --from-literal=a=b", "vault kv put ", "vault kv put a=bcd ",
	"AUTH ", " AUTH abcd", "\"AUTH\" \"", "CONFIG SET requirepass ", "user a on >", " >", "ENV password ", "setenv password abcd\n", "[\"password\",\"", "(\"password\",\"", "set(\"password\",'", "setPassword(\"", "[\"password\"]=", "password]",
	"a,password\n", "password,", "password,a\nb,c\n", "a;password\nb;abcd\nc\n", "Password\tA\tPassword\t", "\u200b", "password\u200b", "password\u00a0=", "\\u200b", "pass\x1b[1mword=", "password=\n", "password:\na1B2c3D4\n", "password is ", "password is a1B2c3D4 ", "token Hx7q9zK2m ", "creds=", "psk=", "x_auth=", "sessionid=",
	"kind: Secret\n", "data: {", "data: '", "data:\n ", "&a ", "\"\\", "kind: ", "{\"kind\":\"Secret\"",
}

// hostile are texts of n bytes.
func hostile(n int) map[string]string {
	out := map[string]string{}
	for _, unit := range hostileUnits {
		out[unit] = strings.Repeat(unit, n/len(unit))
	}
	for _, unit := range []string{"data: {", "data: {\n", "data: '", "data: \"\n", " a: {\n", " a: '\n", " a: \\\"\n", "data:\n a: \"\n", "&a [", "? data\n", "? data\n: {\n", "\"\\", "{\"a\":\"kind Secret\"}\n"} {
		out["Secret "+unit] = "kind: Secret\ndata:\n" + strings.Repeat(unit, n/len(unit))
	}
	for _, unit := range []string{"\\\\r", "\\r", "\r"} { // each may lead to the end of all
		out[unit] = strings.Repeat(unit, n/len(unit))
	}
	// What is taken grows by every walk over the rest, in which each place has to be asked.
	for _, open := range []string{"IDENTIFIED BY '", "\x1bPIDENTIFIED BY '", "\\u001b[IDENTIFIED BY '"} {
		out[open] = open + strings.Repeat("-p --password ? ", n/16)
	}
	return out
}

// A quadratic scan of texts of this size takes hours, so that the test does not
// end; how long it takes is nothing to judge on a machine that is busy.
func TestHostileTextIsLinear(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	for unit, text := range hostile(512 << 10) {
		if masker().String(text) == "" {
			t.Errorf("of %q nothing is left", unit)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, text := range hostile(64) {
		f.Add(text)
	}
	f.Add(`{"a":"password=x\" token: 'abc12345'"}`)
	f.Fuzz(func(t *testing.T, s string) {
		m := masker()
		got := m.String(s)
		if json.Valid([]byte(s)) && !json.Valid([]byte(got)) {
			t.Errorf("JSON %q became %q", s, got)
		}
		if strings.Count(got, "\n") < strings.Count(s, "\n") {
			t.Errorf("%q lost a line: %q", s, got)
		}
		if m.String(got) != got {
			t.Errorf("not idempotent: %q became %q, then %q", s, got, m.String(got))
		}
	})
}

var benchmarkText = strings.Repeat("2026-01-02T03:04:05Z INFO shop/cart-7d4b9c6f5d-x2x7q request=GET /items status=200 user=anna took=12ms\n", 9) +
	"connecting to postgres://app:hunter2@db:5432/shop\n"

func BenchmarkString(b *testing.B) {
	text := strings.Repeat(benchmarkText, 1000)
	m := masker("sk-live-value-known")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.String(text)
	}
}
