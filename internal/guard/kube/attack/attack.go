// Package attack holds requests that try to get more from the guard of a cluster than a
// read, and makes them as they are: on a connection of its own, with nothing put right.
package attack

import (
	"net/http"
	"strings"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// Request is one that tries to get more from a guard than a read. The names
// {ns}, {pod}, {node}, {secret} and {token} stand in its texts for what the
// cluster has and for the run's token.
type Request struct {
	Name   string
	Method string
	Target string
	Header http.Header
	Body   string
	// Raw, when set, is written to the connection as it is.
	Raw string
	// Anonymous leaves the run's token away.
	Anonymous bool
	// HTTP2 sends it over HTTP/2, with these pseudo headers more.
	HTTP2  bool
	Pseudo map[string]string
	// Harmless is an attack that may be answered: what it adds to a read is lost
	// on the way. All others have to be refused, and nothing of them may reach
	// the cluster.
	Harmless bool
}

// Requests returns all of them. Each that is not raw comes over HTTP/1.1 and
// over HTTP/2.
func Requests() []Request {
	var all []Request
	for _, suite := range [][]Request{
		writeAttacks(), upgradeAttacks(), subresourceAttacks(), pathAttacks(), queryAttacks(), headerAttacks(), formatAttacks(), identityAttacks(),
	} {
		for _, a := range suite {
			all = append(all, a)
			a.HTTP2 = true
			all = append(all, a)
		}
	}
	return append(append(all, smugglingAttacks()...), tunnelAttacks()...)
}

const (
	tableJSON   = "application/json;as=Table;v=v1;g=meta.k8s.io"
	podsPath    = "/api/v1/namespaces/{ns}/pods"
	podPath     = podsPath + "/{pod}"
	secretPath  = "/api/v1/namespaces/{ns}/secrets/{secret}"
	podJSON     = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"intruder","namespace":"{ns}"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	labelPatch  = `{"metadata":{"labels":{"owned":"yes"}}}`
	applyYAML   = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {pod}\n  labels: {owned: 'yes'}\n"
	deleteNow   = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`
	tokenAsk    = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`
	evictionAsk = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"{pod}","namespace":"{ns}"}}`
	reviewAsk   = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"x"}}`
)

func oneHeader(name, value string) http.Header { return http.Header{name: {value}} }

func writeAttacks() []Request {
	asJSON := oneHeader("Content-Type", "application/json")
	return []Request{
		{Name: "create", Method: "POST", Target: podsPath, Header: asJSON, Body: podJSON},
		{Name: "create, dry run", Method: "POST", Target: podsPath + "?dryRun=All", Header: asJSON, Body: podJSON},
		{Name: "create across namespaces", Method: "POST", Target: "/api/v1/pods", Header: asJSON, Body: podJSON},
		{Name: "update", Method: "PUT", Target: podPath, Header: asJSON, Body: podJSON},
		{Name: "update of status", Method: "PUT", Target: podPath + "/status", Header: asJSON, Body: podJSON},
		{Name: "update of scale", Method: "PUT", Target: "/apis/apps/v1/namespaces/{ns}/deployments/d/scale", Header: asJSON, Body: `{"spec":{"replicas":0}}`},
		{Name: "JSON patch", Method: "PATCH", Target: podPath, Header: oneHeader("Content-Type", "application/json-patch+json"), Body: `[{"op":"add","path":"/metadata/labels","value":{"owned":"yes"}}]`},
		{Name: "merge patch", Method: "PATCH", Target: podPath, Header: oneHeader("Content-Type", "application/merge-patch+json"), Body: labelPatch},
		{Name: "strategic merge patch", Method: "PATCH", Target: podPath, Header: oneHeader("Content-Type", "application/strategic-merge-patch+json"), Body: labelPatch},
		{Name: "server-side apply", Method: "PATCH", Target: podPath + "?fieldManager=x&force=true", Header: oneHeader("Content-Type", "application/apply-patch+yaml"), Body: applyYAML},
		{Name: "server-side apply, dry run", Method: "PATCH", Target: podPath + "?fieldManager=x&dryRun=All", Header: oneHeader("Content-Type", "application/apply-patch+yaml"), Body: applyYAML},
		{Name: "delete", Method: "DELETE", Target: podPath, Body: deleteNow, Header: asJSON},
		{Name: "delete, dry run", Method: "DELETE", Target: podPath + "?dryRun=All"},
		{Name: "delete a collection", Method: "DELETE", Target: podsPath + "?labelSelector=app"},
		{Name: "delete a namespace", Method: "DELETE", Target: "/api/v1/namespaces/{ns}"},
		{Name: "delete a node", Method: "DELETE", Target: "/api/v1/nodes/{node}"},
		{Name: "options", Method: "OPTIONS", Target: podPath},
		{Name: "head", Method: "HEAD", Target: podPath},
		{Name: "trace", Method: "TRACE", Target: podPath},
		{Name: "a method of its own", Method: "LIST", Target: podsPath},
		{Name: "a lower case method", Method: "get", Target: podsPath},
		{Name: "a read with the body of a write", Method: "GET", Target: podsPath, Header: asJSON, Body: podJSON},
		{Name: "another method in a header", Method: "GET", Target: podPath, Header: oneHeader("X-HTTP-Method-Override", "DELETE"), Harmless: true},
		{Name: "a review of somebody else", Method: "POST", Target: "/apis/authorization.k8s.io/v1/subjectaccessreviews", Header: asJSON, Body: `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"x","resourceAttributes":{"verb":"get","resource":"pods"}}}`},
		{Name: "a review of a token", Method: "POST", Target: "/apis/authentication.k8s.io/v1/tokenreviews", Header: asJSON, Body: reviewAsk},
		{Name: "a token review where the guard answers", Method: "POST", Target: "/apis/authentication.k8s.io/v1/selfsubjectreviews", Header: asJSON, Body: reviewAsk},
		{Name: "a certificate request", Method: "POST", Target: "/apis/certificates.k8s.io/v1/certificatesigningrequests", Header: asJSON, Body: `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest"}`},
		{Name: "approval of a certificate", Method: "PUT", Target: "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", Header: asJSON, Body: `{}`},
		{Name: "a review of somebody else in a namespace", Method: "POST", Target: "/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews", Header: asJSON, Body: `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","spec":{"user":"x","resourceAttributes":{"namespace":"{ns}","verb":"get","resource":"pods"}}}`},
		{Name: "a kind of the cluster's own", Method: "POST", Target: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Header: asJSON, Body: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"intruders.example.com"}}`},
		{Name: "a webhook that changes what is written", Method: "POST", Target: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", Header: asJSON, Body: `{"metadata":{"name":"intruder"},"webhooks":[]}`},
		{Name: "an API of one's own", Method: "POST", Target: "/apis/apiregistration.k8s.io/v1/apiservices", Header: asJSON, Body: `{"metadata":{"name":"v1.intruder.example.com"}}`},
		{Name: "merge patch of an object of a kind of its own", Method: "PATCH", Target: "/apis/example.com/v1/namespaces/{ns}/widgets/w", Header: oneHeader("Content-Type", "application/merge-patch+json"), Body: labelPatch},
		{Name: "patch of a node's status", Method: "PATCH", Target: "/api/v1/nodes/{node}/status", Header: oneHeader("Content-Type", "application/strategic-merge-patch+json"), Body: `{"status":{"conditions":[]}}`},
		{Name: "a forged event", Method: "POST", Target: "/api/v1/namespaces/{ns}/events", Header: asJSON, Body: `{"metadata":{"name":"intruder"},"involvedObject":{"kind":"Pod","name":"{pod}"}}`},
		{Name: "server-side apply in CBOR", Method: "PATCH", Target: podPath + "?fieldManager=x", Header: oneHeader("Content-Type", "application/apply-patch+cbor"), Body: "\xd9\xd9\xf7\xa0"},
		{Name: "create in protobuf", Method: "POST", Target: podsPath, Header: oneHeader("Content-Type", "application/vnd.kubernetes.protobuf"), Body: "k8s\x00\x0a\x00"},
		{Name: "create, compressed", Method: "POST", Target: podsPath, Header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, Body: "\x1f\x8b\x08"},
		{Name: "another method in other headers", Method: "GET", Target: podPath, Header: http.Header{"X-HTTP-Method": {"DELETE"}, "X-Method-Override": {"DELETE"}}, Harmless: true},
		{Name: "escalation by a role binding", Method: "POST", Target: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", Header: asJSON, Body: `{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`},
	}
}

func upgradeAttacks() []Request {
	socket := func(protocol string) http.Header {
		return http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-WebSocket-Version": {"13"},
			"Sec-WebSocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-WebSocket-Protocol": {protocol},
		}
	}
	spdy := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {"v4.channel.k8s.io"}}
	const command = "?command=id&container=app&stdout=true"
	return []Request{
		{Name: "exec over WebSocket", Method: "GET", Target: podPath + "/exec" + command, Header: socket("v5.channel.k8s.io")},
		{Name: "exec over SPDY", Method: "POST", Target: podPath + "/exec" + command, Header: spdy},
		{Name: "exec over SPDY by GET", Method: "GET", Target: podPath + "/exec" + command, Header: spdy},
		{Name: "exec without an upgrade", Method: "GET", Target: podPath + "/exec" + command},
		{Name: "attach over WebSocket", Method: "GET", Target: podPath + "/attach?stdin=true", Header: socket("v5.channel.k8s.io")},
		{Name: "attach over SPDY", Method: "POST", Target: podPath + "/attach?stdin=true", Header: spdy},
		{Name: "port-forward over WebSocket", Method: "GET", Target: podPath + "/portforward?ports=80", Header: socket("SPDY/3.1+portforward.k8s.io")},
		{Name: "port-forward over SPDY", Method: "POST", Target: podPath + "/portforward", Header: spdy},
		{Name: "port-forward without an upgrade", Method: "GET", Target: podPath + "/portforward?ports=80"},
		{Name: "a watch over WebSocket", Method: "GET", Target: podsPath + "?watch=true", Header: socket("binary.k8s.io")},
		{Name: "a log over WebSocket", Method: "GET", Target: podPath + "/log", Header: socket("binary.k8s.io")},
		{Name: "an upgrade that nobody announced", Method: "GET", Target: podPath + "/exec" + command, Header: oneHeader("Upgrade", "websocket")},
		{Name: "exec on a node's own port", Method: "GET", Target: "/api/v1/nodes/{node}/proxy/exec/{ns}/{pod}/app?command=id&output=1", Header: socket("v4.channel.k8s.io")},
		{Name: "an upgrade in several words", Method: "GET", Target: podPath, Header: http.Header{"Connection": {"keep-alive", "x, UPGRADE"}}},
		{Name: "an upgrade to HTTP/2", Method: "GET", Target: podPath, Header: http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "HTTP2-Settings": {"AAMAAABkAAQAAP__"}}},
		{Name: "a token in a WebSocket protocol", Method: "GET", Target: podPath, Anonymous: true, Header: socket("base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io")},
	}
}

func subresourceAttacks() []Request {
	asJSON := oneHeader("Content-Type", "application/json")
	get := func(name, target string) Request { return Request{Name: name, Method: "GET", Target: target} }
	return []Request{
		get("proxy to a Pod", podPath+"/proxy/"),
		get("proxy to a Pod's path", podPath+"/proxy/metrics"),
		get("proxy without a path", podPath+"/proxy"),
		get("proxy to a Service", "/api/v1/namespaces/{ns}/services/http:cart:80/proxy/admin"),
		get("proxy to a node", "/api/v1/nodes/{node}/proxy/logs/"),
		get("proxy that runs a command on a node", "/api/v1/nodes/{node}/proxy/run/{ns}/{pod}/app?cmd=id"),
		get("proxy to a node by the legacy prefix", "/api/v1/proxy/nodes/{node}/logs/"),
		get("proxy to a Pod by the legacy prefix", "/api/v1/proxy/namespaces/{ns}/pods/{pod}/"),
		get("log of a node", "/api/v1/nodes/{node}/log"),
		get("configuration of a node", "/api/v1/nodes/{node}/configz"),
		get("statistics of a node", "/api/v1/nodes/{node}/stats/summary"),
		get("ephemeral containers", podPath+"/ephemeralcontainers"),
		get("approval", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval"),
		get("a subresource of an aggregated API", "/apis/subresources.kubevirt.io/v1/namespaces/{ns}/virtualmachineinstances/x/console"),
		get("a subresource nobody knows", podPath+"/newthing"),
		{Name: "a token", Method: "POST", Target: "/api/v1/namespaces/{ns}/serviceaccounts/default/token", Header: asJSON, Body: tokenAsk},
		{Name: "a proxy that is written to", Method: "POST", Target: "/api/v1/namespaces/{ns}/services/http:cart:80/proxy/admin", Header: asJSON, Body: `{}`},
		{Name: "a proxy that deletes", Method: "DELETE", Target: podPath + "/proxy/data"},
		{Name: "a command on a node", Method: "POST", Target: "/api/v1/nodes/{node}/proxy/run/{ns}/{pod}/app", Header: oneHeader("Content-Type", "application/x-www-form-urlencoded"), Body: "cmd=id"},
		{Name: "a binding by the old way", Method: "POST", Target: "/api/v1/namespaces/{ns}/bindings", Header: asJSON, Body: `{"metadata":{"name":"{pod}"},"target":{"kind":"Node","name":"{node}"}}`},
		{Name: "a rollback", Method: "POST", Target: "/apis/apps/v1/namespaces/{ns}/deployments/d/rollback", Header: asJSON, Body: `{}`},
		{Name: "the status of a certificate request", Method: "PUT", Target: "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/status", Header: asJSON, Body: `{}`},
		{Name: "a token by GET", Method: "GET", Target: "/api/v1/namespaces/{ns}/serviceaccounts/default/token"},
		{Name: "an eviction", Method: "POST", Target: podPath + "/eviction", Header: asJSON, Body: evictionAsk},
		{Name: "a binding", Method: "POST", Target: podPath + "/binding", Header: asJSON, Body: `{"target":{"kind":"Node","name":"{node}"}}`},
		{Name: "an ephemeral container", Method: "PATCH", Target: podPath + "/ephemeralcontainers", Header: oneHeader("Content-Type", "application/strategic-merge-patch+json"), Body: `{"spec":{"ephemeralContainers":[{"name":"x","image":"x"}]}}`},
		{Name: "finalizing a namespace", Method: "PUT", Target: "/api/v1/namespaces/{ns}/finalize", Header: asJSON, Body: `{}`},
		{Name: "restarting by resize", Method: "PATCH", Target: podPath + "/resize", Header: oneHeader("Content-Type", "application/merge-patch+json"), Body: `{}`},
	}
}

func pathAttacks() []Request {
	var all []Request
	for _, target := range []string{
		"/api/v1/namespaces/{ns}/pods/../secrets/{secret}", podPath + "/log/../exec?command=id", podPath + "/./exec", "/api/v1/../../metrics",
		"//api/v1/namespaces/{ns}/secrets", "/api/v1//namespaces/{ns}/secrets/{secret}", podPath + "//exec", podPath + "/exec/", podPath + "/",
		"/api/v1/namespaces/{ns}/pods%2f{pod}/exec", podPath + "%2fexec", podPath + "%2Fexec", podPath + "/%65xec", podPath + "/exe%63", podPath + "/log%2f..%2fexec",
		"/api/v1/namespaces/{ns}/%2e%2e/secrets", "/api/v1/namespaces/%2e%2e/secrets", "/api/v1/%2e%2e/%2e%2e/metrics", "/%2e%2e/api/v1/pods", podPath + "%252fexec",
		podPath + "/log;/exec", podPath + ";exec", podPath + "/exec;x=log", podPath + `\exec`, podPath + "%5cexec", podPath + "/exec%00", podPath + "%00/log", podPath + "/log%0d%0aX: y", podPath + "/log%20", podPath + "%3fwatch=true",
		"/api/v1/watch/namespaces/{ns}/pods", "/api/v1/watch/secrets", "/apis/apps/v1/watch/deployments", "/api/v1/watch/namespaces/{ns}/pods/{pod}", "/api/v1/redirect/nodes/{node}/",
		"/API/v1/pods", "/api/V1/pods", "/api/v1/PODS", "/api/v1/namespaces/{ns}/Secrets", "/api/v1beta3/pods", "/apis//v1/pods", "/apis/apps//deployments",
		"/metrics", "/debug/pprof/heap", "/debug/flags/v", "/logs/", "/logs/kube-apiserver.log", "/configz", "/.well-known/openid-configuration", "/openid/v1/jwks", "/healthz/etcd", "/livez/ping", "/readyz/x", "/", "/index.html", "/flagz", "/statusz", "/swagger-ui/", "/openapi/v3/../../metrics", "/openapi/v2/x", "/version/",
		"api/v1/pods", "*", "?watch=true", "", "http:/api/v1/pods", "/api/v1/namespaces/{ns}/pods/{pod}#/exec",
		"/api/v1/namespaces/" + strings.Repeat("a", 300) + "/pods", "/" + strings.Repeat("api/v1/", 2000),
	} {
		all = append(all, Request{Name: "path " + texts.CutBytes(target, 80), Method: "GET", Target: target})
	}
	return all
}

func queryAttacks() []Request {
	var all []Request
	for _, target := range []string{
		podsPath + "?watch=true&watch=false", podsPath + "?limit=1&limit=100000", podsPath + "?limit%3D100000", podsPath + "?l%69mit=1", podsPath + "?watch=TRUE", podsPath + "?watch=t", podsPath + "?watch", podsPath + "?watch=", podsPath + "?watch=1;limit=1", podsPath + "?a;b", podsPath + "?&&", podsPath + "?", podsPath + "?=", podsPath + "?watch=true&",
		podsPath + "?limit=-1", podsPath + "?limit=1e9", podsPath + "?limit=%31%00", podsPath + "?timeoutSeconds=forever", podsPath + "?continue=../../x%20", podsPath + "?labelSelector=%zz", podsPath + "?labelSelector=a%0d%0aX-Y:%20z",
		podPath + "?watch=true", podPath + "/log?command=id", podPath + "/log?insecureSkipTLSVerifyBackend=true", podPath + "/log?container=..%2f..%2fx", podPath + "/log?container=app&container=other", podPath + "?dryRun=All", podPath + "?export=true", podPath + "?exact=true", podPath + "?fieldManager=x", podPath + "?unknown=1", podPath + "?stdin=true&stdout=true&tty=true&command=sh",
		"/api/v1/namespaces/{ns}/secrets?fieldSelector=data.password%3Dhunter2", "/apis/example.com/v1/widgets?fieldSelector=spec.password%3Dhunter2", podsPath + "?fieldSelector=spec.containers%5B0%5D.env%3Dx", podsPath + "?fieldSelector=metadata.name",
	} {
		all = append(all, Request{Name: "query " + texts.CutBytes(target, 80), Method: "GET", Target: target})
	}
	return append(all,
		Request{Name: "a list without an end", Method: "GET", Target: podsPath + "?limit=999999999", Harmless: true},
		Request{Name: "a log without an end", Method: "GET", Target: podPath + "/log?limitBytes=99999999999999999999", Harmless: false},
		Request{Name: "a Secret through a whole Table", Method: "GET", Target: secretPath + "?includeObject=Object", Header: oneHeader("Accept", tableJSON), Harmless: true},
		Request{Name: "a Secret", Method: "GET", Target: secretPath, Harmless: true},
		Request{Name: "all Secrets", Method: "GET", Target: "/api/v1/secrets", Harmless: true},
	)
}

func headerAttacks() []Request {
	read := func(name string, h http.Header, harmless bool) Request {
		return Request{Name: name, Method: "GET", Target: podPath, Header: h, Harmless: harmless}
	}
	return []Request{
		read("impersonation of a user", oneHeader("Impersonate-User", "system:admin"), false),
		read("impersonation of a group", http.Header{"Impersonate-User": {"x"}, "Impersonate-Group": {"system:masters"}}, false),
		read("impersonation by uid", oneHeader("Impersonate-Uid", "1"), false),
		read("impersonation by an extra", oneHeader("Impersonate-Extra-Scopes", "all"), false),
		read("impersonation in lower case", http.Header{"impersonate-user": {"system:admin"}}, false),
		read("impersonation that the connection is to drop", http.Header{"Connection": {"Impersonate-User"}, "Impersonate-User": {"system:admin"}}, false),
		read("a front proxy's user", http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}, true),
		read("forwarded addresses", http.Header{"X-Forwarded-For": {"10.0.0.1"}, "X-Forwarded-Host": {"evil"}, "Forwarded": {"for=10.0.0.1"}}, true),
		read("another path in a header", http.Header{"X-Original-URL": {"/api/v1/secrets"}, "X-Rewrite-URL": {"/api/v1/secrets"}}, true),
		read("cookies", oneHeader("Cookie", "session=1"), true),
		read("an early answer wanted", oneHeader("Expect", "100-continue"), true),
		read("a range", oneHeader("Range", "bytes=0-10"), true),
		read("a trace", http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Audit-Id": {"mine"}}, true),
		read("another user agent", oneHeader("User-Agent", "kube-controller-manager"), true),
		read("huge headers", oneHeader("X-Filler", strings.Repeat("a", 64<<10)), false),
		{Name: "another host", Method: "GET", Target: podPath, Header: oneHeader("Host", "evil.invalid"), Harmless: true},
	}
}

func formatAttacks() []Request {
	read := func(name, accept string, harmless bool) Request {
		return Request{Name: name, Method: "GET", Target: podPath, Header: oneHeader("Accept", accept), Harmless: harmless}
	}
	return []Request{
		read("protobuf", "application/vnd.kubernetes.protobuf", false),
		read("protobuf, else JSON", "application/vnd.kubernetes.protobuf, application/json", true),
		read("protobuf of metadata", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", false),
		read("CBOR", "application/cbor", false),
		read("CBOR sequences", "application/cbor-seq", false),
		read("YAML", "application/yaml", false),
		read("a Table in protobuf", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", false),
		read("an unknown form", "application/json;as=Everything;g=meta.k8s.io;v=v1", false),
		read("a form with a line break", "application/json;as=\"Ta\nble\"", false),
		{Name: "gzip", Method: "GET", Target: podPath, Header: oneHeader("Accept-Encoding", "gzip, br, zstd"), Harmless: true},
		{Name: "a compressed body", Method: "GET", Target: podPath, Header: oneHeader("Content-Encoding", "gzip"), Body: "\x1f\x8b\x08"},
		{Name: "OpenAPI in protobuf", Method: "GET", Target: "/openapi/v2", Header: oneHeader("Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")},
		{Name: "a Secret in protobuf", Method: "GET", Target: secretPath, Header: oneHeader("Accept", "application/vnd.kubernetes.protobuf")},
	}
}

func identityAttacks() []Request {
	as := func(name string, values ...string) Request {
		return Request{Name: name, Method: "GET", Target: podPath, Header: http.Header{"Authorization": values}, Anonymous: true}
	}
	return []Request{
		{Name: "no token", Method: "GET", Target: podPath, Anonymous: true},
		as("another token", "Bearer ncr-run-000000000000000000000000000000000000000000000000"),
		as("an empty token", "Bearer "),
		as("the token and more", "Bearer {token}x"),
		as("the token as a password", "Basic {token}"),
		as("two tokens", "Bearer {token}", "Bearer x"),
		{Name: "the token in the query", Method: "GET", Target: podPath + "?access_token={token}", Anonymous: true},
		{Name: "an anonymous look at the version", Method: "GET", Target: "/version", Anonymous: true},
	}
}

// smugglingAttacks are requests that two readers may cut differently, written byte by
// byte.
func smugglingAttacks() []Request {
	const (
		head = "GET " + podPath + " HTTP/1.1\r\nHost: guard\r\nAuthorization: Bearer {token}\r\n"
		del  = "DELETE " + podPath + " HTTP/1.1\r\nHost: guard\r\nAuthorization: Bearer {token}\r\n\r\n"
	)
	raw := func(name, text string) Request { return Request{Name: name, Raw: text} }
	return []Request{
		raw("two lengths", head+"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello"),
		raw("a length and chunks", head+"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+del),
		raw("chunks", head+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
		raw("chunks under another name", head+"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
		raw("chunks after a blank", head+"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
		raw("chunks twice", head+"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
		raw("a length with a sign", head+"Content-Length: +5\r\n\r\nhello"),
		raw("a second request in a body", head+"Content-Length: 90\r\n\r\n"+del),
		raw("a delete behind a read", strings.Replace(head, "GET ", "OPTIONS ", 1)+"\r\n"+del),
		raw("a target with a host", strings.Replace(head, "GET /", "GET http://evil.invalid/", 1)+"\r\n"),
		raw("a target with our own host", strings.Replace(head, "GET /", "GET https://127.0.0.1/", 1)+"\r\n"),
		raw("a target with a password", strings.Replace(head, "GET /", "GET https://a:b@127.0.0.1/", 1)+"\r\n"),
		raw("impersonation behind chunks", head+"Transfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n\r\n0\r\nImpersonate-User: system:admin\r\n\r\n"),
		raw("two hosts", head+"Host: evil.invalid\r\n\r\n"),
		raw("no host", "GET "+podPath+" HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"),
		raw("a bare line feed in a header", head+"X-A: b\nX-HTTP-Method-Override: DELETE\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		raw("a folded header", head+"X-A: b\r\n Impersonate-User: admin\r\nImpersonate-User:\r\n system:admin\r\n\r\n"),
		raw("a blank in the target", "GET "+podPath+" /exec HTTP/1.1\r\nHost: guard\r\nAuthorization: Bearer {token}\r\n\r\n"),
		raw("a NUL in the target", "GET "+podPath+"\x00/exec HTTP/1.1\r\nHost: guard\r\nAuthorization: Bearer {token}\r\n\r\n"),
		raw("HTTP/1.0 that stays", strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1)+"Connection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"),
		raw("HTTP/0.9", "GET "+podPath+"\r\n\r\n"),
		raw("another version", strings.Replace(head, "HTTP/1.1", "HTTP/3.0", 1)+"\r\n"),
		raw("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		raw("a tunnel", "CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\nAuthorization: Bearer {token}\r\n\r\n"),
		raw("a tunnel to a path", "CONNECT "+podPath+"/exec HTTP/1.1\r\nHost: guard\r\nAuthorization: Bearer {token}\r\n\r\n"),
	}
}

// tunnelAttacks are what HTTP/2 has for upgrades.
func tunnelAttacks() []Request {
	return []Request{
		{Name: "a tunnel", Method: "CONNECT", HTTP2: true},
		{Name: "exec by extended CONNECT", Method: "CONNECT", Target: podPath + "/exec?command=id", HTTP2: true, Pseudo: map[string]string{":protocol": "websocket"}},
		{Name: "port-forward by extended CONNECT", Method: "CONNECT", Target: podPath + "/portforward", HTTP2: true, Pseudo: map[string]string{":protocol": "SPDY/3.1"}},
		{Name: "a protocol on a read", Method: "GET", Target: podPath, HTTP2: true, Pseudo: map[string]string{":protocol": "websocket"}},
		{Name: "a pseudo header nobody knows", Method: "GET", Target: podPath, HTTP2: true, Pseudo: map[string]string{":impersonate": "admin"}},
	}
}
