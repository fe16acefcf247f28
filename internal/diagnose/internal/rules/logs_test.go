package rules

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// Lines that programs really end with, and what they tell.
func TestLogsTell(t *testing.T) {
	for cause, lines := range map[string][]string{
		"dependency-refused": {
			`FATAL: dial tcp 10.0.0.1:5432: connect: connection refused`,
			`Error: connect ECONNREFUSED 10.96.14.2:6379`,
			`psycopg2.OperationalError: connection to server at "db" (10.0.0.1), port 5432 failed: Connection refused`,
			`org.postgresql.util.PSQLException: Connection to db:5432 refused. Check that the hostname and port are correct.`,
			`com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure`,
			`System.Net.Sockets.SocketException (111): Connection refused [::ffff:10.0.0.1]:5432`,
			`redis.exceptions.ConnectionError: Error 111 connecting to redis:6379. Connection refused.`,
			`Could not connect to Redis at redis:6379: Connection refused`,
			`kafka.errors.NoBrokersAvailable: NoBrokersAvailable`,
			`2026/03/01 [error] 29#29: *1 connect() failed (111: Connection refused) while connecting to upstream, upstream: "http://10.0.0.3:8080/"`,
			"Error: db is away\nCaused by: java.net.ConnectException: Connection refused (Connection refused)",
			"cannot connect to db:5432: connection refused\ncannot connect to db:5432: connection refused\nFATAL: giving up after 2 attempts",
			"thread 'main' panicked at src/main.rs:9:5: called `Result::unwrap()` on an `Err` value: Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
		},
		"dependency-name-unresolved": {
			`panic: dial tcp: lookup databse on 10.96.0.10:53: no such host`,
			`Error: getaddrinfo ENOTFOUND databse`,
			`[error] Postgrex.Protocol failed to connect: ** (DBConnection.ConnectionError) tcp connect (databse:5432): non-existing domain - :nxdomain`,
			`java.net.UnknownHostException: databse: Name or service not known`,
			`psycopg2.OperationalError: could not translate host name "databse" to address: Name or service not known`,
			`2026/03/01 10:00:00 [emerg] 1#1: host not found in upstream "databse" in /etc/nginx/conf.d/default.conf:3`,
			`nc: bad address 'databse'`,
			`curl: (6) Could not resolve host: databse`,
			`socket.gaierror: [Errno -2] Name or service not known`,
			`rpc error: code = Unavailable desc = name resolver error: produced zero addresses`,
			`ERROR 2005 (HY000): Unknown MySQL server host 'databse' (-2)`,
		},
		"dependency-timeout": {
			`fatal: dial tcp 10.0.0.1:5432: i/o timeout`,
			`Error: connect ETIMEDOUT 10.0.0.1:3306`,
			`java.net.SocketTimeoutException: connect timed out`,
			`pymongo.errors.ServerSelectionTimeoutError: mongo:27017: timed out`,
			`fatal: rpc error: code = DeadlineExceeded desc = context deadline exceeded`,
			`error: dial tcp 10.0.0.1:80: connect: no route to host`,
		},
		"dependency-auth-failed": {
			`FATAL: password authentication failed for user "shop"`,
			`ERROR 1045 (28000): Access denied for user 'shop'@'10.0.0.1' (using password: YES)`,
			`ReplyError: WRONGPASS invalid username-password pair or user is disabled.`,
			`MongoServerError: Authentication failed.`,
			`panic: not authorized on geo-db to execute command { find: "geo" }`,
			`pika.exceptions.ProbableAuthenticationError: ConnectionClosedByBroker: (403) 'ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN'`,
		},
		"certificate-expired": {
			`fatal: x509: certificate has expired or is not yet valid: current time 2026-03-01T12:00:00Z is after 2025-01-01T00:00:00Z`,
			`Error: certificate has expired`,
			`ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)`,
			`Caused by: java.security.cert.CertificateExpiredException: NotAfter: Wed Jan 01 00:00:00 UTC 2025`,
		},
		"certificate-invalid": {
			`fatal: Get "https://api:8443/": tls: failed to verify certificate: x509: certificate signed by unknown authority`,
			`fatal: x509: certificate is valid for api.shop.svc, not api`,
			`Error: self-signed certificate in certificate chain`,
			`javax.net.ssl.SSLHandshakeException: PKIX path building failed: unable to find valid certification path to requested target`,
			`requests.exceptions.SSLError: certificate verify failed: unable to get local issuer certificate`,
			`nginx: [emerg] SSL_CTX_use_PrivateKey("/tls/tls.key") failed (SSL: error:05800074:x509 certificate routines::key values mismatch)`,
		},
		"oom-killed": {
			`billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 88.`,
			`[2026-03-01 10:00:00 +0000] [1] [ERROR] Worker (pid:31) was sent SIGKILL! Perhaps out of memory?`,
			`DAMN ! worker 1 (pid: 9) died, killed by signal 9 :( trying respawn ...`,
			`2026-03-01 10:00:00 UTC [1] LOG:  server process (PID 77) was terminated by signal 9: Killed`,
			`2026/03/01 10:00:00 [alert] 1#1: worker process 30 exited on signal 9`,
		},
		"clock-skew": {
			`fatal: x509: certificate has expired or is not yet valid: current time 2024-03-01T12:00:00Z is before 2025-01-01T00:00:00Z`,
			`error: token used before issued`,
			`fatal: RequestTimeTooSkewed: The difference between the request time and the current time is too large`,
			`etcd: the clock difference against peer is too high: error: clock drift 3.2s`,
		},
		"heap-exhausted": {
			`Exception in thread "main" java.lang.OutOfMemoryError: Java heap space`,
			`FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory`,
			`MemoryError: cannot allocate the index`,
			`PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes)`,
		},
		"file-missing": {
			`Unhandled exception. System.IO.FileNotFoundException: The configuration file 'appsettings.Production.json' was not found and is not optional.`,
			`panic: open /etc/cart/config.yaml: no such file or directory`,
			`FileNotFoundError: [Errno 2] No such file or directory: '/data/model.bin'`,
			`Error: ENOENT: no such file or directory, open '/app/config.json'`,
			`java.io.FileNotFoundException: /etc/cart/app.properties (No such file or directory)`,
			`java.nio.file.NoSuchFileException: /etc/cart/app.properties`,
			`Error: Cannot find module '/app/server.js'`,
			`python: can't open file '/app/main.py': [Errno 2] No such file or directory`,
			`Error: Unable to access jarfile /app/cart.jar`,
			`nginx: [emerg] open() "/etc/nginx/mime.types" failed (2: No such file or directory) in /etc/nginx/nginx.conf:14`,
			`fatal: failed to load config: open /etc/cart/config.yaml: no such file or directory`,
		},
		"permission-denied": {
			`panic: open /data/lock: permission denied`,
			`PermissionError: [Errno 13] Permission denied: '/data/lock'`,
			`Error: EACCES: permission denied, mkdir '/data/cache'`,
			`mkdir: cannot create directory '/bitnami/postgresql/data': Permission denied`,
			`fatal: listen tcp 0.0.0.0:80: bind: permission denied`,
			`nginx: [emerg] bind() to 0.0.0.0:80 failed (13: Permission denied)`,
			`System.UnauthorizedAccessException: Access to the path '/data/lock' is denied.`,
		},
		"disk-full": {
			`panic: write /data/wal/0001: no space left on device`,
			`OSError: [Errno 28] No space left on device: '/data/out'`,
			`PANIC:  could not write to file "pg_wal/xlogtemp.29": No space left on device`,
			`Error: ENOSPC: no space left on device, write`,
		},
		"read-only-filesystem": {
			`panic: open /var/cache/x: read-only file system`,
			`OSError: [Errno 30] Read-only file system: '/var/cache/x'`,
			`nginx: [emerg] mkdir() "/var/cache/nginx/client_temp" failed (30: Read-only file system)`,
			`Error: EROFS: read-only file system, open '/app/x'`,
		},
		"port-in-use": {
			`panic: listen tcp :8080: bind: address already in use`,
			`Error: listen EADDRINUSE: address already in use :::8080`,
			`OSError: [Errno 98] Address already in use`,
			`nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)`,
			`Web server failed to start. Port 8080 was already in use.`,
		},
		"bad-argument": {
			`Error: unknown flag: --prot`,
			`flag provided but not defined: -prot`,
			`main.py: error: unrecognized arguments: --prot 8080`,
			`Unrecognized VM option 'UseFastGC'`,
			`error: unexpected argument '--prot' found`,
			`redis-server: Error: unknown option --prot`,
		},
		"missing-env": {
			`panic: environment variable "CATALOG_ADDR" not set`,
			`KeyError: 'DATABASE_URL'`,
			`django.core.exceptions.ImproperlyConfigured: The SECRET_KEY setting must not be empty.`,
			`Error: DATABASE_URL must be set`,
			`Error: Missing required environment variable DATABASE_URL`,
			`Error: Database is uninitialized and superuser password is not specified.`,
			`java.lang.IllegalArgumentException: Could not resolve placeholder 'DB_HOST' in value "${DB_HOST}"`,
			`/entrypoint.sh: 3: DATABASE_URL: parameter not set`,
			`fatal: DATABASE_URL environment variable is not set`,
		},
		"invalid-configuration": {
			`Error: Invalid environment variables`,
			`fatal: error converting YAML to JSON: yaml: line 4: did not find expected key`,
			`yaml.scanner.ScannerError: mapping values are not allowed here`,
			`nginx: [emerg] unknown directive "sever" in /etc/nginx/conf.d/default.conf:3`,
			`fatal: invalid character '}' looking for beginning of value`,
			`json.decoder.JSONDecodeError: Expecting ',' delimiter: line 3 column 1 (char 20)`,
			`fatal: strconv.Atoi: parsing "eighty": invalid syntax`,
			`*** FATAL CONFIG FILE ERROR (Redis 7.0.0) ***`,
		},
		"rbac-denied": {
			`error: pods is forbidden: User "system:serviceaccount:shop:cart" cannot list resource "pods" in API group "" in the namespace "shop"`,
			"error retrieving resource lock shop/cart: leases is forbidden: User \"system:serviceaccount:shop:cart\" cannot get resource \"leases\"\nF0301 10:00:15.100000       1 main.go:90] failed to acquire leadership",
		},
		"rbac-denied ": {
			"error: secrets is forbidden: User \"system:serviceaccount:shop:cart\" cannot list resource \"secrets\"\nfatal: timed out waiting for caches to sync",
		},
		"version-skew": {
			`fatal: no matches for kind "CronJob" in version "batch/v1beta1"`,
			`error: the server could not find the requested resource`,
			`FATAL:  database files are incompatible with server`,
		},
		"image-platform-mismatch": {`exec /usr/local/bin/cart: exec format error`},
		"command-not-found":       {`/bin/sh: 1: exec: servr: not found`, `exec /entrypoint.sh: no such file or directory`, `sh: servr: not found`},
	} {
		for _, line := range lines {
			t.Run(cause+"/"+line, func(t *testing.T) {
				got := ApplyRules(scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), line+"\n"))
				if len(got) == 0 || got[0].Cause != strings.TrimSpace(cause) {
					t.Fatalf("got %+v", got)
				}
				for _, f := range got {
					scenetest.CheckFinding(t, f)
				}
			})
		}
	}
}

// Lines that look like one of those and tell something else, or nothing.
func TestLogsDoNotTell(t *testing.T) {
	for _, line := range []string{
		"panic: index out of range",
		"connection refused, trying again\npanic: no licence",
		"open /etc/x: no such file or directory, using defaults\npanic: nil pointer dereference",
		"fatal: the payment was refused by policy",
		"fatal: order 127 not found",
		"error: user permission denied for table orders",
		"warning: certificate expires in 3 days\npanic: division by zero",
		"fatal: job deadline must be a number",
		"error: version 3 of the order is stale",
		"fatal: no port for the ship",
		"error: unknown customer",
		"error: the title must not be empty",
		"fatal: worker 9 sent no signal",
		"fatal: licence is void\n    at Db.connectionRefused(ECONNREFUSED.java:3)",
	} {
		check(t, []rulecase{{line, scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), line), []string{"crash-on-start"}}})
	}
}

func TestLogsOfWhomTheyTell(t *testing.T) {
	const refused = "error: dial tcp 10.0.0.1:5432: connect: connection refused"
	young := scenetest.Pod(func(p *corev1.Pod) {
		p.CreationTimestamp.Time = scenetest.Now.Add(-20 * time.Second)
	})
	deleted := scenetest.Pod(scenetest.Crashing(143, "Error", time.Hour), func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp })
	check(t, []rulecase{
		{"dying", scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), refused), []string{"dependency-refused", "crash-on-start"}},
		{"alive, not ready", scenetest.WithLog(scenetest.FactsOf(scenetest.Pod()), refused), []string{"dependency-refused"}},
		{"only just started", scenetest.WithLog(scenetest.FactsOf(young), refused), nil},
		{"well", scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), refused), nil},
		{"being deleted", scenetest.WithLog(scenetest.FactsOf(deleted), refused), nil},
		{"killed for memory, the log is of something else", scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Second))), refused), []string{"oom-killed", "dependency-refused"}},
		{"a node's restart", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(255, "Unknown", time.Hour), often(1, time.Minute))), nil},
		{"a loop of the same", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(255, "Error", time.Hour))), []string{"container-crash"}},
	})
}

// A log is as hostile as any other text.
func TestHostileLog(t *testing.T) {
	f := scenetest.WithLog(scenetest.FactsOf(scenetest.DyingPod()), "panic: open /etc/"+scenetest.HostileText+strings.Repeat("a", 1<<16)+": no such file or directory\n"+strings.Repeat("fatal: lookup \x1b[31m\u202e"+strings.Repeat("x.", 4000)+": no such host\n", 90))
	for _, n := range ApplyRules(f) {
		scenetest.CheckFinding(t, n)
		if strings.ContainsAny(n.Summary, "\n\x1b\u202e") || len(n.Summary) > 4*scene.MaxText || strings.Contains(n.Test.Command, "etc") {
			t.Errorf("%+v", n)
		}
	}
}

func TestMemoryToldByTheKernel(t *testing.T) {
	const kernel = "Memory cgroup out of memory: Killed process 4242 (worker) total-vm:123kB"
	limited := limits("32Mi", "64Mi")
	check(t, []rulecase{
		{"by an event", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour), limited)), "OOMKilling", kernel, time.Minute), []string{"oom-killed"}},
		{"an old event", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour), limited)), "OOMKilling", kernel, scene.FreshFor), []string{"container-crash"}},
		{"another signal", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(139, "Error", time.Hour), limited)), "OOMKilling", kernel, time.Minute), []string{"container-crash"}},
		{"its own heap", scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Hour), limited)), "java.lang.OutOfMemoryError: Java heap space"), []string{"heap-exhausted", "container-crash"}},
	})
	n := ApplyRules(scenetest.WithLog(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Hour), limited)), "java.lang.OutOfMemoryError: Java heap space"))[0]
	if !strings.Contains(n.Summary, "64Mi") || !strings.Contains(n.Summary, "Java heap space") {
		t.Errorf("%q", n.Summary)
	}
}
