package mask

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// Where names and values of secrets stand beside, below and inside of one another.
func TestSecretsInOddPlacesAreMasked(t *testing.T) {
	const s, w = "hunter2-Zx81", "swordfish"
	b64 := base64.StdEncoding.EncodeToString
	for _, c := range []struct{ name, text, secret string }{
		// Behind a domain.
		{"annotation", "acme.io/password: " + w, w},
		{"annotation in json", `{"annotations":{"acme.io/password":"` + w + `"}}`, w},
		{"annotation in describe", "Annotations:  db.acme.io/api-key: " + w + "\n", w},
		{"label", "--label acme.io/password=" + w, w},
		{"annotation, weak", `{"acme.io/token":"` + s + `"}`, s},
		{"applied annotation", `{"last-applied":"{\"acme.io/password\":\"` + w + `\"}"}`, w},

		// Below.
		{"block", "password: |\n  " + w + "\nuser: x\n", w},
		{"block, folded", "password: >-\n  " + w + "\nuser: x\n", w},
		{"block of lines", "user: x\npassword: |2-\n    first line\n\n    " + w + "\nuser: x\n", w},
		{"block in a list", "- password: |\n    " + w + "\n  user: x\n", w},
		{"block in json", `{"config.yaml":"password: |\n  ` + w + `\nuser: x"}`, w},
		{"block in json, the last", `{"config.yaml":"password: |\n  ` + w + `","b":"c"}`, w},
		{"block in json in json", `{"a":"{\"config.yaml\":\"password: |\\n  ` + w + `\\nuser: x\"}"}`, w},
		{"block, weak", "token: |\n  " + s + "\n", s},
		{"next line", "password:\n  " + w + "\nuser: x\n", w},
		{"next line, quoted", "password:\n    \"correct horse\"\n", "correct horse"},
		{"next line in json", `{"a":"db:\n  password:\n    ` + w + `\n"}`, w},
		{"next line, windows", "password:\r\n  " + w + "\r\n", w},

		// Plural and nested.
		{"plural", `{"passwords":["` + w + `","` + s + `"]}`, s},
		{"plural, the first", `{"passwords":["` + w + `","` + s + `"]}`, w},
		{"plural in yaml", "passwords: [" + w + ", " + s + "]", s},
		{"plural in lines", "passwords:\n  - " + w + "\n  - other1\nuser: x", w},
		{"plural in lines, not indented", "passwords:\n- first\n- " + w + "\nuser: x", w},
		{"plural in lines in json", `{"a":"passwords:\n- first\n- ` + w + `\n"}`, w},
		{"singular list", `{"password":["first","` + w + `"]}`, w},
		{"indented list", "{\n  \"api_keys\": [\n    \"first\",\n    \"" + w + "\"\n  ]\n}", w},
		{"keys", "apiKeys: {prod: " + s + "}", s},
		{"credentials", `{"credentials":{"a":"x","b":"` + s + `"}}`, s},
		{"credentials in lines", "credentials:\n  a: x\n  b: " + s + "\n", s},
		{"credentials, deeper", `{"credentials":{"a":{"b":["` + s + `"]}}}`, s},
		{"tokens", `{"tokens":["` + s + `"]}`, s},
		{"list in json in json", `{"a":"{\"passwords\":[\"first\",\"` + w + `\"]}"}`, w},
		{"plural and one", "DB_PASSWORDS=" + s, s},

		// Encoded.
		{"base64 of a variable", "data: " + b64([]byte("DB_PASSWORD="+w+"\n")), b64([]byte("DB_PASSWORD=" + w + "\n"))[:20]},
		{"base64 of yaml", b64([]byte("user: app\npassword: " + w + "\n")), b64([]byte("user: app\npassword: " + w + "\n"))[24:40]},
		{"base64 of json, for URLs", "x=" + base64.RawURLEncoding.EncodeToString([]byte(`{"a":"??>>","password":"`+w+`"}`)), base64.RawURLEncoding.EncodeToString([]byte(`{"a":"??>>","password":"` + w + `"}`))[20:40]},
		{"base64 of base64", b64([]byte("x: " + b64([]byte("password: "+w)))), b64([]byte("x: " + b64([]byte("password: "+w))))[8:30]},
		{"base64 in json", `{"a":"x\n` + b64([]byte("password: "+w+"\n")) + `"}`, b64([]byte("password: " + w + "\n"))[:18]},
		{"base64 of a url", "CONFIG=" + b64([]byte("redis://:"+s+"@db:6379/0")), b64([]byte("redis://:" + s + "@db:6379/0"))[8:20]},
		{"base64 in lines", wrap(b64([]byte(strings.Repeat("some words here\n", 3) + "password: " + w + strings.Repeat("\nand more", 9)))), b64([]byte(strings.Repeat("some words here\n", 3) + "password: " + w + strings.Repeat("\nand more", 9)))[64:76]},
		{"base64 in lines in json", `{"a":"` + strings.ReplaceAll(wrap(b64([]byte(strings.Repeat("some words here\n", 3)+"password: "+w+strings.Repeat("\nand more", 9)))), "\n", `\n`) + `"}`, b64([]byte(strings.Repeat("some words here\n", 3) + "password: " + w + strings.Repeat("\nand more", 9)))[64:76]},

		// In colours.
		{"colours", "\x1b[36mpassword\x1b[0m=\x1b[33m" + w + "\x1b[0m", w},
		{"colours and a colon", "\x1b[1;32mdb_password:\x1b[0m " + w, w},
		{"colours in json", `{"log":"\u001b[36mpassword\u001b[0m=\u001b[33m` + w + `\u001b[0m"}`, w},
		{"colours, short name", "\x1b[36mpass\x1b[0m=" + s, s},
		{"colours in the shell", `echo \033[36mpassword\033[0m=` + w, w},
		{"colours around quotes", "\x1b[34m\"password\"\x1b[0m: \x1b[32m\"" + w + "\"\x1b[0m", w},
		{"token behind a colour", "\x1b[36mAKIAIOSFODNN7EXAMPLE\x1b[0m", "AKIAIOSFODNN7EXAMPLE"},

		// In URLs.
		{"url, slash and hash", "postgres://u:p/a#ss" + s + "@host/db", s},
		{"url, slash and hash, begin", "postgres://u:p/a#ss@host/db", "p/a#ss"},
		{"url, question mark", "amqp://u:a?b" + s + "@host:5672/v", "a?b" + s},
		{"url, no user", "redis://:a/b" + s + "@host:6379/0", "a/b" + s},
		{"url, two at", "postgres://u:p/a@b#" + s + "@host/db", s},

		// Value and name in members of their own.
		{"default before name", `{"default":"` + w + `","name":"DB_PASSWORD"}`, w},
		{"value before name", `{"value":"` + w + `","name":"DB_PASSWORD"}`, w},
		{"value before name, indented", "{\n  \"value\": \"" + w + "\",\n  \"name\": \"DB_PASSWORD\"\n}", w},
		{"value before name, in json", `{"a":"{\n  \"value\": \"` + w + `\",\n  \"name\": \"DB_PASSWORD\"\n}"}`, w},
		{"value before name, escaped", `{"a":"{\"value\":\"x\\\"` + w + `\",\"type\":\"t\",\"name\":\"DB_PASSWORD\"}"}`, w},
		{"default behind name", `{"name":"DB_PASSWORD","type":"string","default":"` + w + `"}`, w},
		{"value behind name and more", `{"name":"DB_PASSWORD","description":"it's {this}","value":"` + w + `"}`, w},
		{"parameters", `{"ParameterKey":"DbPassword","ParameterValue":"` + w + `"}`, w},
		{"parameters, turned", `{"ParameterValue": "` + w + `", "UsePreviousValue": false, "ParameterKey": "DbPassword"}`, w},
		{"attributes", `<add key="DbPassword" value="` + w + `"/>`, w},
		{"attributes, turned", `<add value="` + w + `" key="DbPassword" />`, w},
		{"attributes in json", `{"web.config":"<add key=\"DbPassword\" value=\"` + w + `\"/>"}`, w},
		{"attributes and others", `<property scope="x" value="` + w + `" name="db.password"/>`, w},
		{"attributes in apostrophes", `<add value='` + w + `' key='DbPassword'/>`, w},
		{"element of a name", `<entry key="db.password">` + w + `</entry>`, w},
		{"element of a name in json", `"\u003cparam name=\"password\"\u003e` + w + `\u003c/param\u003e"`, w},
		{"value before name in yaml", "- value: " + w + "\n  name: DB_PASSWORD\n", w},
		{"value before name in yaml, and more", "env:\n- value: " + w + "\n  optional: true\n  name: DB_PASSWORD\n- name: X\n", w},
		{"value before name in yaml in json", `{"a":"- value: ` + w + `\n  name: DB_PASSWORD\n"}`, w},
		{"value behind name in yaml", "- name: DB_PASSWORD\n  description: of the database\n  value: " + w + "\n", w},
		{"a number before its name", `{"value":12345678,"name":"DB_PASSWORD"}`, "12345678"},

		// Statements and command lines.
		{"alter user", "ALTER USER app WITH PASSWORD '" + w + "';", w},
		{"create role", "create role app login encrypted password '" + w + "' valid until 'infinity'", w},
		{"create login", "CREATE LOGIN app WITH PASSWORD = N'" + w + "', DEFAULT_DATABASE = x", w},
		{"set password", "SET PASSWORD FOR 'app'@'%' = PASSWORD('" + w + "')", w},
		{"identified", "CREATE USER app IDENTIFIED BY '" + w + "'", w},
		{"identified, bare", "CREATE USER app IDENTIFIED BY " + w + ";", w},
		{"identified with", "ALTER USER 'a'@'b' IDENTIFIED WITH mysql_native_password BY '" + w + "'", w},
		{"user mapping", "CREATE USER MAPPING FOR app SERVER s OPTIONS (user 'app', password '" + w + "')", w},
		{"statement in json", `{"query":"ALTER USER app WITH PASSWORD '` + w + `'"}`, w},
		{"mysql", "mysql -h db -u root -p" + w + " shop", w},
		{"mysql, quoted", "mysqldump -uroot -p'" + w + "' shop", w},
		{"mysql in a list", `{"command":["mysqladmin","ping","-p` + w + `"]}`, w},
		{"mysql in lines", "command:\n- mysqladmin\n- ping\n- -p" + w + "\n", w},
		{"mysql by its path", "/usr/bin/mysql -p" + w, w},
		{"mysql in a probe", "Liveness:  exec [mysqladmin ping -uroot -p" + w + "] delay=30s", w},
		{"redis", "redis-cli -h cache -a " + w + " ping", w},
		{"redis in a list", `["redis-cli","-a","` + w + `","ping"]`, w},
		{"redis in a shell", `["sh","-c","redis-cli -a ` + w + ` ping"]`, w},
		{"redis in lines", "- redis-cli\n- -a\n- " + w + "\n", w},
		{"curl", "curl -uadmin:" + w + " https://api", w},
		{"curl, apart", "curl -s -u admin:" + w + " https://api", w},
		{"curl, long", "curl --user=admin:" + w + " https://api", w},
		{"curl in a list", `["curl","-u","admin:` + w + `","https://api"]`, w},
		{"user of anything", "x -u admin:" + s, s},
		{"sshpass", "sshpass -p " + w + " ssh host", w},
		{"sshpass, attached", "sshpass -p" + w + " ssh host", w},
		{"mongo", "mongosh -u root -p " + w + " --quiet", w},
		{"docker login", "docker login -u bot -p " + w + " registry.example", w},
		{"ldap", "ldapsearch -D cn=admin -w " + w, w},
		{"long flag of a command", "mysql --user root --password " + w + " shop", w},
		{"long flag in a list", `{"args":["--password","` + w + `"]}`, w},
		{"long flag in lines", "args:\n- --password\n- " + s + "\n", s},
		{"from literal", "kubectl create secret generic db --from-literal=password=" + w, w},
		{"openssl", "openssl rsa -in k -passin pass:" + w + " -out x", w},
		{"rabbitmq", "rabbitmqctl add_user app " + w, w},
		{"htpasswd", "htpasswd -bc /etc/x admin " + w, w},
		{"htpasswd to stdout", "htpasswd -nb admin " + w, w},

		// Tables and arrows.
		{"bar", "password | " + w + "\n", w},
		{"bars", "| user | app |\n| password | " + w + " |\n", w},
		{"expanded", "-[ RECORD 1 ]----\nuser     | app\npassword | " + w + "\n", w},
		{"arrow, thick", "password => " + w, w},
		{"arrow, thin", "password -> " + s, s},
		{"arrow, drawn", "db_password → " + s, s},
		{"arrow in json", `{"m":"password -\u003e ` + s + `"}`, s},
		{"columns", "NAME   PASSWORD    AGE\ndb     " + w + "   3d\n", w},
		{"columns, last row", "NAME   PASSWORD\ndb     other\ncache  " + w + "\n", w},
		{"columns, first", "PASSWORD    NAME\nother1      db\n" + w + "   cache\n", w},
		{"columns, weak", "NAME   TOKEN          AGE\ndb     " + s + "   3d\n", s},
		{"columns by tabs", "NAME\tPASSWORD\tAGE\ndb\t" + w + "\t3d\n", w},
		{"columns in json", `{"log":"NAME   PASSWORD\ndb     ` + w + `\n"}`, w},
		{"psql", " id | password  | age\n----+-----------+-----\n  1 | " + w + " |   3\n", w},
		{"markdown", "| user | password |\n|---|---|\n| app | " + w + " |\n", w},
		{"mysql table", "+------+-----------+\n| user | password  |\n+------+-----------+\n| app  | " + w + " |\n+------+-----------+\n", w},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(c.text, c.secret) {
				t.Fatalf("the text lacks %q", c.secret)
			}
			m := masker()
			got := m.String(c.text)
			if strings.Contains(got, c.secret) || !strings.Contains(got, tagOpen) {
				t.Errorf("%q became %q", c.text, got)
			}
			if json.Valid([]byte(c.text)) != json.Valid([]byte(got)) {
				t.Errorf("%q became %q", c.text, got)
			}
			if again := m.String(got); again != got {
				t.Errorf("not idempotent:\n %q\n %q", got, again)
			}
		})
	}
}

// wrap breaks base64 into lines, as base64(1) does.
func wrap(s string) string {
	var out strings.Builder
	for len(s) > 76 {
		out.WriteString(s[:76] + "\n")
		s = s[76:]
	}
	return out.String() + s + "\n"
}

// What only looks like it, of each kind.
func TestNearMissesAreKept(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for _, text := range []string{
		"checksum/secret: 0123456789abcdef0123456789abcdef", "checksum/password: 0123456789abcdef", "image: registry.acme.io/password:1.2.3-abc", "GET https://acme.io/password?x=1",
		"open /etc/app.conf.d/password: no such file", "secret.reloader.stakater.com/reload: db-1a2b3c4d", "vault.hashicorp.com/agent-inject-secret-db: secret/data/db1a2b3c",

		"password: |\nuser: x", "password:\n  valueFrom:\n    secretKeyRef:\n      name: db-1a2b3c4d\n", "password:\n  required: true\n  minLength: 8\n", "Enter password:\nroot@db-0:/#",
		"  --password:\n      The password of the user\n", "password:\n\nuser: x", "password:\n  - must have eight letters\n", "token: |\n  some text of 12345678 words\n", "password:\n  type: string\n",

		"passwords: {minLength: 8, policy: strict}", "credentials: {secretName: db-1a2b3c4d}", `{"credentials":{"secretRef":{"name":"aws-creds-1a2b3c","key":"creds12345"}}}`, "credentials:\n  secretRef:\n    name: aws-creds-1a2b3c\n    key: creds12345\n",
		"secrets: [builder-token-x7k2p]", "secrets:\n- name: builder-token-x7k2p\n- name: default-token-1a2b3\n", "imagePullSecrets:\n- name: regcred-1a2b3c4d\n", "tokens: 4096", "max_tokens: 16384", `{"tokens":[101,2023,2003]}`, "tokens: [a, b, c]",
		"passwords: []", `{"passwords":{}}`, "passwords must not be reused2024", "credentials: none", "Passwords:\n- must be changed1234 often\n",

		b64([]byte("the quick brown fox jumps over the lazy dog")), b64([]byte("apiVersion: v1\nkind: ConfigMap\ndata:\n  level: debug\n")), "sha256:" + strings.Repeat("0a1b2c3d", 8), "/var/lib/kubelet/pods/0191c1e2/volumes/kubernetes/io~projected",
		"a-very-long-name-of-a-workload-that-has-no-end-7d4b9c6f5d-x2x7q", b64([]byte("password authentication failed for user app")),

		"\x1b[36mpassword\x1b[0m is required", "\x1b[31mpassed\x1b[0m: 12345678a of them", "compass\x1b[0m=north12345",

		"https://registry.example:5000/team/app@sha256:0a1b2c3d4e5f", "http://host:8080/path@v1.2.3", "https://example.com/@scope/package", "git+https://example.com/a:b/c@main", "http://[::1]:8080/a@b", "http://example.com/?mail=a@b.example", "see http://x.example/a:b, mail me@x.example",

		`{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"key":"password","name":"db-1a2b3c4d"}}}`, `{"value":"info","name":"LOG_LEVEL"},{"name":"DB_PASSWORD","valueFrom":{}}`, `[{"name":"x","value":"a1b2c3d4"},{"name":"DB_PASSWORD"}]`, `{"key":"password","name":"db"}`, `{"key":"example.com/token","value":"true","effect":"NoSchedule"}`,
		"- name: LOG_LEVEL\n  value: info\n- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      key: password\n      name: db\n", `<add key="PasswordPolicy" value="strict1234"/>`, `<input name="password" type="text"/>`, "- value: info\n  name: LOG\n- name: DB_PASSWORD\n", `{"name":"password","type":"string","description":"the password of 12345678"}`,
		`{"level":"a1b2c3d4","name":"token","msg":"x"}`, `{"default":"","name":"DB_PASSWORD"}`,

		"ls -p", "cp -a x y", "cp -a source1234 y", "mkdir -p dir", "mkdir -p /var/lib/abcd1234", "ssh -p 22 host", "docker run -p 80:80 -u 1000:1000 image", "kubectl logs -p cart-7d4b9c6f5d-x2x7q", "nc -w 10 db 5432", "curl -w timing1234", "ps -p 1234", "netstat -a 1a2b3c4d",
		"mysql -p -h db", "mysql -p", "mysql -p$PASSWORD", "mysql -p${MYSQL_ROOT_PASSWORD} x", `redis-cli -a "$REDIS_PASSWORD" ping`, "mysql -P3306", "kubectl exec mysql-0 -- ls -plain1234", "redis-cli -p 6379", "redis-cli info | grep -a1234567", "echo mysql; tar -pxzf12345",
		"curl -u $USER:$PASS x", "docker login -u bot --password-stdin", "--password-file /etc/x1234567", "rsync -a host:/data1234 .", "useradd -u 1000:1000", "--username admin:1234abcd5",
		"ALTER USER app SET search_path", "the user's password 'is' wrong", "key 'password' in secret 'db'", "create a user with a password 12 long", "an Identified by name", "users identified by email",
		"rabbitmqctl list_users app12345", "-pass:12", "htpasswd -c file admin",

		"password | string | required", "| password | string | the password |", "| name | type |\n|---|---|\n| password | string |\n", "kubectl get secret x -o jsonpath={.data.password} | base64 -d", "echo $password | base64", "cat token | sha256sum",
		"password -> hash", "token -> next state", "NAME   SECRET                AGE\ndb     db-token-1a2b3c4d     3d\n", "NAME   SECRETS   AGE\ndb     1         3d\n", "NAME   PASSWORD   AGE\ndb     <none>     3d\n", "NAME   TOKENS   MAX\ndb     16384    3d\n",
		"    You need to specify one of the following:\n    - MYSQL_ROOT_PASSWORD\n    - MYSQL_ALLOW_EMPTY_PASSWORD\n    - MYSQL_RANDOM_ROOT_PASSWORD\n", "#   KUBE_PASSWORD\n#   MASTER_NAME\n", "set DB_USER DB_PASSWORD\n    DB_USER DB_NAME1234\n",
		"github.com/aws/aws-sdk-go-v2/credentials: [v1.17.27a → v1.18.3b]", "If set to true, APIs identified by --runtime-config are enabled", `{"tokens":{"audience":{"token":"\u003ctoken\u003e"}}}`, `{"password":"<your password>"}`, `{"m":"{\"password\":\"\u003cyour password\u003e\"}"}`,
		"PASSWORD RESET REQUESTED\nby anna12345\n", "INVALID PASSWORD\nuser a1b2c3d4\n", "NAME   READY   PASSWORD\n\nother a1b2c3d4\n",

		"password policy: strict", "tokens: 4096", "max_tokens", "secretName: db", "passwordSecretRef: {name: db-1a2b3c4d, key: password}", "passwordSecretRef:\n  name: db-1a2b3c4d\n", "passwordFrom: db-1a2b3c4d",
		"tokenReview: a1b2c3d4e5", "password_hash_rounds: 12", "no password was given: retry1234 later",
	} {
		if got := masker().String(text); got != text {
			t.Errorf("destroyed:\n  %q\n  %q", text, got)
		}
	}
}
