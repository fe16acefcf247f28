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

		// What looks like a name where secrets stand.
		{"a name of a variable", "DB_SECRET=cart-db-7f9a1b2c", "cart-db-7f9a1b2c"},
		{"a name of a client", "client_secret: cart-db-7f9a1b2c", "cart-db-7f9a1b2c"},
		{"a name as a password", "password: cart-db-7f9a1b2c", "cart-db-7f9a1b2c"},
		{"a secret that is no name", "secret: " + s, s},
		{"a token of kubeadm", "TOKEN                     TTL\nabcdef.0123456789abcdef   23h\n", "abcdef.0123456789abcdef"},

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

		// Other command lines.
		{"from literal of any name", "kubectl create secret generic x --from-literal=key=" + w, w},
		{"from literal, quoted", "kubectl create secret generic x --from-literal='key=" + w + "' -n shop", w},
		{"from literal, the second", "kubectl create secret generic x --from-literal=user=anna --from-literal=key=" + w, w},
		{"from literal in a list", `["kubectl","create","secret","generic","x","--from-literal=key=` + w + `"]`, w},
		{"from literal, apart", "kubectl create secret generic x --from-literal key=" + w, w},
		{"vault", "vault kv put secret/shop/db user=app value=" + w, w},
		{"proxy user", "curl --proxy-user u:" + w + " https://api", w},
		{"proxy user, short", "curl -x proxy:3128 -U u:" + w + " https://api", w},
		{"httpie", "http -a admin:" + w + " https://api", w},
		{"etcd", "etcdctl --user root:" + w + " get /", w},
		{"sqlcmd", "sqlcmd -S db -U sa -P " + w + " -Q x", w},
		{"cqlsh", "cqlsh -u cassandra -p " + w, w},
		{"keytool", "keytool -list -keystore x.jks -storepass " + w, w},
		{"secrets manager", "aws secretsmanager create-secret --name x --secret-string " + w, w},
		{"sqlplus", "sqlplus -s app/" + w + "@db", w},
		{"gpg", "gpg --batch --passphrase " + w + " -d x", w},

		// Redis.
		{"auth", "AUTH " + w, w},
		{"auth of a user", "AUTH default " + w + "\n", w},
		{"auth behind a prompt", "127.0.0.1:6379> AUTH " + w, w},
		{"auth in small letters", "127.0.0.1:6379> auth " + w, w},
		{"auth by the client", "redis-cli -h cache AUTH " + w, w},
		{"auth as it is monitored", `1700000000.1 [0 10.0.0.7:52100] "AUTH" "` + w + `"`, w},
		{"auth in a list", `["AUTH","` + w + `"]`, w},
		{"hello", "HELLO 3 AUTH default " + w, w},
		{"config set", "CONFIG SET requirepass " + w, w},
		{"config set by the client", "redis-cli config set masterauth " + w, w},
		{"config set as it is monitored", `"CONFIG" "SET" "requirepass" "` + w + `"`, w},
		{"acl", "user default on >" + w + " ~* &* +@all", w},
		{"acl, set", "ACL SETUSER app on >" + w + " ~* +@all", w},
		{"acl, the second", "user app on >first1 >" + w + " ~*", w},
		{"acl as it is monitored", `"ACL" "SETUSER" "app" "on" ">` + w + `"`, w},
		{"acl in json", `{"users.acl":"user default on \u003e` + w + ` ~* +@all\n"}`, w},

		// Variables without a sign, and settings.
		{"dockerfile", "ENV DB_PASSWORD " + w, w},
		{"dockerfile, all of the line", "ENV DB_PASSWORD correct " + w, w},
		{"dockerfile, as it is built", "Step 3/5 : ENV DB_PASSWORD " + w, w},
		{"csh", "setenv X_PASSWORD " + w, w},
		{"windows", "setx DB_PASSWORD " + w, w},
		{"git", "git config smtp.password " + w, w},
		{"key value store", "etcdctl put /shop/db/password " + w, w},
		{"aws configure", "aws configure set aws_secret_access_key " + s, s},

		// Pairs, calls, indexes.
		{"pair", `["password","` + s + `"]`, s},
		{"pair in json", `{"args":"[\"password\", \"` + s + `\"]"}`, s},
		{"pair in braces", `{"db.password", "` + s + `"}`, s},
		{"tuple", `{default_pass, <<"` + w + `">>}.`, w},
		{"call", `set("password","` + w + `")`, w},
		{"call of a method", `config.put("db.password", "` + w + `");`, w},
		{"call with more", `setenv("X_PASSWORD", "` + w + `", 1)`, w},
		{"call in php", `define( 'DB_PASSWORD', '` + w + `' );`, w},
		{"call of anything", `connect("password", "` + s + `")`, s},
		{"setter", `dataSource.setPassword("` + w + `");`, w},
		{"builder", `.withPassword("` + w + `")`, w},
		{"call of the name", `.password("` + s + `")`, s},
		{"index", `env["X_PASSWORD"] = "` + w + `"`, w},
		{"index in python", `os.environ['DB_PASSWORD']='` + w + `'`, w},
		{"index in php", `$config['db']['password'] = '` + w + `';`, w},
		{"index of a form", "user[password]=" + w + "&x=1", w},
		{"index of a form, escaped", "user%5Bpassword%5D=" + w + "&x=1", w},
		{"arrow to the left", `password <- "` + w + `"`, w},

		// Fields and titles.
		{"csv", "id,user,password\n1,app," + w + "\n2,x,y\n", w},
		{"csv, second row", "id,user,password\n1,app,other\n2,db," + w + "\n", w},
		{"csv, first", "Password,User\n" + w + ",app\n", w},
		{"csv in quotes", "\"id\",\"user\",\"password\"\n\"1\",\"a,b\",\"" + w + "\"\n", w},
		{"csv by semicolons", "id;user;password\n1;app;" + w + "\n", w},
		{"csv, windows", "id,user,password\r\n1,app," + w + "\r\n", w},
		{"csv, weak", "id,token\n1," + s + "\n", s},
		{"csv in json", `{"users.csv":"id,user,password\n1,app,` + w + `\n"}`, w},
		{"tsv", "id\tuser\tpassword\n1\tapp\t" + w + "\n", w},
		{"tsv in json", `{"log":"id\tuser\tpassword\n1\tapp\t` + w + `\n"}`, w},
		{"bars without a rule", "id|user|password\n1|app|" + w + "\n", w},
		{"mixed case", "Name   Password    Age\ndb     " + w + "   3d\n", w},
		{"mixed case by tabs", "Name\tPassword\ndb\t" + w + "\n", w},

		// Addresses.
		{"url in a url", "https%3A%2F%2Fapp%3A" + w + "%40db", w},
		{"url in a url, small", "?next=https%3a%2f%2fapp%3a" + w + "%40db%3a5432%2fshop", w},
		{"url in a url in a url", "https%253A%252F%252Fapp%253A" + w + "%2540db", w},
		{"url, half escaped", "url=postgres%3A//app:" + w + "@db/shop", w},
		{"url in php", `{"u":"postgres:\/\/app:` + w + `@db\/shop"}`, w},
		{"oracle", "jdbc:oracle:thin:app/" + w + "@host:1521:x", w},
		{"oracle, service", "jdbc:oracle:thin:app/" + w + "@//host:1521/x", w},
		{"address", "dial app:" + w + "@db:5432", w},
		{"address in json", `{"dsn":"app:` + w + `@db:5432/shop"}`, w},
		{"address without a port", "dsn=app:" + s + "@db/shop", s},
		{"discord", "https://discord.com/api/webhooks/1234567890/aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY", "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY"},
		{"telegram", "https://api.telegram.org/bot123456789:ABC-dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xYz0/sendMessage", "dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xYz0"},
		{"telegram's token", "bot 123456789:AAEdE5fG7hJ9kL2mN4pQ6rS8tU1vW3xYz01 started", "dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xYz01"},
		{"mattermost", "https://chat.example/hooks/xq3tk9mz1fb7jyo8pd2c4w6r5a", "xq3tk9mz1fb7jyo8pd2c4w6r5a"},
		{"lark", "https://open.feishu.cn/open-apis/bot/v2/hook/0191c1e2-7b3a-7c11-9a9b-0123456789ab", "7b3a-7c11-9a9b"},
		{"opsgenie", "Authorization: GenieKey 0191c1e2-7b3a-7c11-9a9b-0123456789ab", "7b3a-7c11-9a9b"},

		// Short names.
		{"redis auth", "REDIS_AUTH=" + w, w},
		{"redis auth in json", `{"name":"REDIS_AUTH","value":"` + w + `"}`, w},
		{"smtp auth", "SMTP_AUTH=" + s, s},
		{"smtp auth of a user", "smtpAuth: anna:" + s, s},
		{"creds of a database", "DB_CREDS=app:" + s, s},
		{"creds", "creds=hunter2", "hunter2"},
		{"creds in json", `{"creds":"` + s + `"}`, s},
		{"psk", "PSK=" + w, w},
		{"psk of a network", `network={ ssid="x" psk="` + w + `" }`, w},
		{"wireguard", "PresharedKey = " + w + "aB3=", w},
		{"session", "JSESSIONID=0A1B2C3D4E5F60718293A4B5C6D7E8F9", "0A1B2C3D4E5F60718293A4B5C6D7E8F9"},
		{"session of a path", "/cart;jsessionid=0A1B2C3D4E5F60718293A4B5C6D7E8F9?x=1", "0A1B2C3D4E5F60718293A4B5C6D7E8F9"},
		{"session, small", "sessionid=" + s, s},
		{"session of express", "connect.sid=s%3A" + s + ".x; Path=/", s},

		// Disguised.
		{"no-break space", "password\u00a0=\u00a0" + w, w},
		{"no-break space behind", "password:\u00a0" + w, w},
		{"blank of no width", "password\u200b=" + w, w},
		{"blank of no width inside", "pass\u200bword=" + w, w},
		{"wide sign", "password＝" + w, w},
		{"wide colon", "password：" + w, w},
		{"wide letters", "ｐａｓｓｗｏｒｄ=" + w, w},
		{"colour inside the name", "pass\x1b[1mword\x1b[0m=" + w, w},
		{"colour of grep", "DB_\x1b[01;31m\x1b[Kpass\x1b[m\x1b[Kword=" + w, w},
		{"colour inside the name in json", `{"log":"pass\u001b[1mword\u001b[0m=` + w + `"}`, w},
		{"no-break space in json", `{"log":"password\u00a0= ` + w + `"}`, w},
		{"wide sign in json", `{"log":"password\uff1d` + w + `"}`, w},
		{"colour inside a token", "AKIA\x1b[1mIOSFODNN7\x1b[0mEXAMPLE", "IOSFODNN7"},

		// On the next line.
		{"next line of a sign", "password=\n" + s + "\n", s},
		{"next line of a colon", "Password:\nhunter2\n", "hunter2"},
		{"next line of a question", "Enter password:\n" + s + "\n", s},
		{"next line in json, at its column", `{"log":"Password:\n` + s + `\nwell"}`, s},

		// In sentences.
		{"sentence", "the password is " + s, s},
		{"sentence with a stop", "The password is " + s + ".", s},
		{"sentence, rejected", "password " + s + " rejected", s},
		{"sentence, quoted", `password "` + s + `" was not accepted`, s},
		{"sentence, set", "password was changed to " + s + " by anna", s},
		{"sentence in json", `{"msg":"login with password ` + s + ` failed"}`, s},
		{"sentence, token", "token Hx7q9zK2m4 was rejected", "Hx7q9zK2m4"},
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

		// Names of Secrets, and of what refers to them.
		"secret: cart-db-7f9a1b2c", `{"secret":"cart-db-7f9a1b2c"}`, "Secret: cart-db-7f9a1b2c", "--secret=cart-db-7f9a1b2c", "--secret cart-db-7f9a1b2c", "auth.secret=cart-db-v2", "tlsSecret: cart-tls-1a2b3c4d", "pullSecret: regcred-1a2b3c4d", "pull-secret: regcred-1a2b3c4d",
		"imagePullSecrets: [{name: regcred-1a2b3c4d}]", `{"imagePullSecrets":[{"name":"regcred-1a2b3c4d"}]}`, `{"imagePullSecret":["regcred-1a2b3c4d"]}`, "Image pull secrets:  regcred-1a2b3c4d\n", "Mountable secrets:   builder-dockercfg-x7k2p\n", "Tokens:              builder-token-x7k2p\n", "token: builder-token-x7k2p", "credentials: aws-creds-1a2b3c4d", `{"credentials":{"aws":"aws-creds-1a2b3c4d"}}`,
		`{"secretKeyRef":{"key":"api_token_v2","name":"cart-db-7f9a1b2c"}}`, "secretRef:\n  name: cart-db-7f9a1b2c\n", "secretName: cart-token-7f9a1b2c", "serviceAccountName: builder-token-x7k2p", "secret/cart-db-7f9a1b2c created", `secret "cart-db-7f9a1b2c" not found`, "configmap: cart-secret-7f9a1b2c",
		"NAME                  TYPE                                  DATA   AGE\nbuilder-token-x7k2p   kubernetes.io/service-account-token   3      5d\n", "NAME   TOKEN                  AGE\ndb     builder-token-x7k2p    3d\ncart   cart-7d4b9c6f5d-x2x7q   3d\n", "NAME   TOKEN\ndb     v1.31.2+k3s1\ncart   2026-11-20T10:00:00Z\nx      nginx:1.25.3-alpine\n",
		"| name | token |\n|---|---|\n| db | builder-token-x7k2p |\n", "password:  16 bytes\ntoken:     1024 bytes\n", "spec.privateKeySecretRef.name: cart-key-1a2b3c4d", "tokenSecretRef: {name: cart-1a2b3c4d}", "volumes:\n- name: token-1a2b3c4d\n  secret:\n    secretName: token-1a2b3c4d\n",

		"password policy: strict", "tokens: 4096", "max_tokens", "secretName: db", "passwordSecretRef: {name: db-1a2b3c4d, key: password}", "passwordSecretRef:\n  name: db-1a2b3c4d\n", "passwordFrom: db-1a2b3c4d",
		"tokenReview: a1b2c3d4e5", "password_hash_rounds: 12", "no password was given: retry1234 later",

		// Sentences and states.
		"password is required", "password changed", "token expired", "auth failed", "AUTH failed", "secret not found", "user default on", "user default on nopass ~* +@all", "ENV PATH /usr/bin", "ENV PASSWORD_FILE /run/x1234567",
		"the password is wrong", "password was changed by anna12345", "password for user app12345 rejected", "password must have 8 characters", "password expires in 90d12h", "password hash sha256 is weak", "password of role app_1", "invalid password for app@db-0", "token is not valid before 2026-11-20T10:00:00Z", "token v1.31.2+k3s1 is old",
		`secret "cart-db-7f9a1b2c" not found`, "secret shop/cart-db-7f9a1b2c not found", "token builder-token-x7k2p was deleted", "the secret is cart-db-7f9a1b2c", "secret kube-system/sh.helm.release.v1.cart.v12", "unexpected token < in JSON at position 12",
		"Password:\nconnected\n", "Password:\n\nhunter2\n", "password:\nok1\n", "DB_PASSWORD=\nDB_HOST=db-1a2b3c\n", "DB_PASSWORD=\nSESSION=a1B2c3D4e5\n", "PASSWORD:\n2026-11-20T10:00:00Z INFO x1\n", "password=\ncart-7d4b9c6f5d-x2x7q\n", "Password:\nroot@db-0:~$\n",

		// Commands.
		"kubectl create configmap x --from-literal=level=debug", "kubectl create configmap x --from-literal=level=debug1234", "kubectl create secret generic x --from-file=key=/etc/x", "kubectl create secret generic x --from-literal=key=$VALUE", "vault kv get secret/shop/db", "vault kv put secret/shop @data.json",
		"curl --proxy-user $U:$P https://api", "psql -U app:x1234567 -h db", "ls -a a:b1234567", "ps -U root:1234abcd", "sqlplus / as sysdba", "sqlplus app@db", "unzip -P", "tar -P x1234567", "ssh -p 2222 app@db", "grep -E a:b12345 x",
		"set DB_PASSWORD first", "export of DB_PASSWORD failed", "setenv of PASSWORD failed", "git config user.name anna12345", "the ENV DB_PASSWORD is required here", "set password for user app", "setx /M PATH x", "ENV DB_PASSWORD $OTHER",

		// Redis.
		"AUTH required", "NOAUTH Authentication required.", "AUTH LOGIN", "AUTH PLAIN", "ERR AUTH <password> called without any password configured for the default user", "AUTH service is up", "auth default rejected", "250-AUTH PLAIN LOGIN", "[AUTH] user anna12345 logged in", "please set requirepass before exposing redis", "CONFIG SET maxmemory 100mb", "CONFIG GET requirepass",
		"user anna >/dev/null 2>&1", "if x >y1234567 then", "a user wrote >hello1234", `<a id="x">user1234</a>`, "echo on >file1234",

		// Pairs and calls.
		`["password","username"]`, `{"required":["username","password"],"type":"object"}`, `{"grant_types":["password","refresh_token"]}`, `["token","secret"]`, `errors.add("password", "is required")`, `t("password", "Please enter it")`, `setError("password", "required")`, `getString("password", "x")`, `Column("password", "varchar")`, `setAttribute("password", "type")`, `os.Getenv("DB_PASSWORD")`, `password("string")`, `{"password", "text"}`, `validatePassword("swordfish")`,
		`labels["password"]`, `if x["password"] {`, `{"a":["password"],"b":"c1234567"}`, "password <- input", "a[password]: x",

		// Fields and titles.
		"id,user,password\n", "id,user,password\n\n1,app,swordfish\n", "we need user, password, and email\nnext, line1234, foo1234\n", "name,password,age\nonly two1234,fields1234\n", "SELECT id,password FROM x1,y1\na,swordfish,c\n", "user,password", "id,token\n1,cart-7d4b9c6f5d-x2x7q\n", "id,secret\n1,cart-db-7f9a1b2c\n",
		"Name   Secret        Age\ndb     db-1a2b3c4d   3d\n", "Wrong Password Given\nby   swordfish\n", "Type    Reason   Token:   Message\na       b        abcd1234   x\n",

		// Addresses.
		"https%3A%2F%2Fexample.com%3A8080%2Fa%40b", "?u=https%3A%2F%2Fdb%2F%40scope", "jdbc:oracle:thin:@host:1521:x", "jdbc:oracle:thin:@//host:1521/x", "registry.example:5000/shop/cart@sha256:" + strings.Repeat("01", 32), "nginx:1.25@sha256:" + strings.Repeat("0a", 32), "sip:anna@pbx:5060", "mail anna@example.com:25", "rabbit@mq-0:25672", "ssh app@db:5432", "at 12:30:00 anna@db:22", "svc:http@10.0.0.1:8080",
		"https://discord.com/api/webhooks/", "GET /api/webhooks/cart-7d4b9c6f5d-x2x7q/status-of-the-webhooks", "https://api.telegram.org/bot", "/usr/lib/git/hooks/pre-receive.d/check-1234567890", "GET /hooks/deployments/cart-7d4b9c6f5d-x2x7q", "12345678:AA", "12:AAAA",

		// Short names.
		"SMTP_AUTH=plain", "SMTP_AUTH=login", "KAFKA_AUTH=scram-sha-512", "DB_AUTH=trust", "REDIS_AUTH=true", "REDIS_AUTH_ENABLED=enabled1", "auth_type: a1b2c3d4", "PROXY_AUTH=http://auth:8080", "author: a1b2c3d4e5", "unauth: a1B2c3d4", "X_AUTH=/etc/auth1234",
		"creds: aws-creds-1a2b3c4d", "DB_CREDS=db-creds-1a2b3c", "creds: default", "creds=/var/run/creds1", "wpa_key_mgmt=WPA-PSK", "psk: enabled", "sessionid=42", "session: abcd", "the session id is 42", "tpsk: abcdefgh", "credsStore: desktop12",

		// Disguised.
		"password\u00a0is required", "pass\x1b[1mword\x1b[0m is required", "pass\u200bed: 12345678a of them", `{"m":"password\u00a0changed"}`, "naïve“quotes”…and — dashes", "ｐａｓｓｗｏｒｄ is required",
	} {
		if got := masker().String(text); got != text {
			t.Errorf("destroyed:\n  %q\n  %q", text, got)
		}
	}
}
