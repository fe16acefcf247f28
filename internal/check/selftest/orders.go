package selftest

import (
	"slices"
	"strings"
)

// clusterOrders are commands that would change the cluster or get behind its API: the
// verbs that kubectl has for it, the transports it speaks, and the ways to spell them.
func clusterOrders() []Order {
	guard, either := []Layer{Guard}, []Layer{Guard, Sandbox}
	return slices.Concat(
		parseOrders(writeOrders, guard, false), parseOrders(tunnelOrders, guard, false), parseOrders(proxyOrder, either, false), parseOrders(spelledOrders, guard, false),
		parseOrders(rawOrders, guard, false), impersonationOrders(either), parseOrders(identityOrders, either, false), parseOrders(secretOrders, guard, true),
	)
}

// impersonationOrders are those of which the guard's record shows the read alone.
func impersonationOrders(expected []Layer) []Order {
	all := parseOrders(impersonating, expected, false)
	for i, whom := range []access{{Verb: "impersonate", Resource: "users", Name: "system:admin"}, {Verb: "impersonate", Resource: "groups", Name: "system:masters"}} {
		all[i].Asks = []access{whom}
	}
	return all
}

// foreignOrders are those that mean something without a guard or a sandbox of ours.
func foreignOrders() []Order {
	return slices.Concat(
		parseOrders(writeOrders, nil, false), parseOrders(tunnelOrders, nil, false), parseOrders(proxyOrder, nil, false), parseOrders(spelledOrders, nil, false),
		parseOrders(rawOrders, nil, false), parseOrders(impersonating, nil, false),
	)
}

// parseOrders reads orders, one a line: a name, a colon and the command.
func parseOrders(lines string, expected []Layer, harmless bool) (all []Order) {
	for line := range strings.Lines(lines) {
		if name, command, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			all = append(all, Order{Name: name, Command: command, Expected: expected, Harmless: harmless})
		}
	}
	return all
}

const writeOrders = `
delete a Pod: kubectl delete pod cart-0 --wait=false
delete a Pod at once: kubectl delete pod cart-0 --force --grace-period=0 --wait=false
delete all Pods: kubectl -n nightcrier-selftest delete pods --all --wait=false
delete by a label: kubectl -n nightcrier-selftest delete deployment -l '!nothing' --wait=false
delete the namespace: kubectl delete namespace nightcrier-selftest --wait=false
delete a node: kubectl delete node nightcrier-selftest --wait=false
delete from stdin: echo '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart-0"}}' | kubectl delete --wait=false -f -
delete, dry run: kubectl delete pod cart-0 --dry-run=server
apply: echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"owned":"yes"}}' | kubectl apply --validate=false -f -
apply by the server: echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"owned":"yes"}}' | kubectl apply --server-side --force-conflicts --validate=false -f -
create a ConfigMap: kubectl create configmap intruder --from-literal=a=b
create a namespace: kubectl create namespace intruder
create a Deployment: kubectl create deployment intruder --image=i
create a Job: kubectl create job intruder --image=i
create a Secret: kubectl create secret generic intruder --from-literal=a=b
create a binding of cluster-admin: kubectl create clusterrolebinding intruder --clusterrole=cluster-admin --serviceaccount=nightcrier-selftest:default
create a ClusterRole: echo '{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"intruder"},"rules":[]}' | kubectl create --raw /apis/rbac.authorization.k8s.io/v1/clusterroles -f -
replace: echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"nightcrier-selftest"},"data":{"owned":"yes"}}' | kubectl replace --validate=false -f -
edit: EDITOR="sed -i s/production/owned/" kubectl edit --validate=false configmap settings
patch, strategic: kubectl patch pod cart-0 -p '{"metadata":{"labels":{"owned":"yes"}}}'
patch, merge: kubectl patch deployment cart --type=merge -p '{"spec":{"replicas":0}}'
patch, JSON: kubectl patch deployment cart --type=json -p '[{"op":"replace","path":"/spec/replicas","value":0}]'
patch of the status: kubectl patch deployment cart --subresource=status --type=merge -p '{"status":{"replicas":0}}'
label: kubectl label pod cart-0 owned=yes
annotate: kubectl annotate pod cart-0 owned=yes
taint a node: kubectl taint node nightcrier-selftest owned=yes:NoExecute
cordon a node: kubectl cordon nightcrier-selftest
drain a node: kubectl drain nightcrier-selftest --force --ignore-daemonsets --delete-emptydir-data --timeout=5s
scale: kubectl scale deployment cart --replicas=0
autoscale: echo '{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"cart"},"spec":{"maxReplicas":2}}' | kubectl create --raw /apis/autoscaling/v2/namespaces/nightcrier-selftest/horizontalpodautoscalers -f -
restart a rollout: kubectl rollout restart deployment cart
pause a rollout: kubectl rollout pause deployment cart
set an image: kubectl set image deployment/cart app=evil
set the environment: kubectl set env deployment/cart OWNED=yes
expose: kubectl expose deployment cart --port=80 --name=intruder
run a Pod: kubectl run intruder --image=i
approve a certificate: echo '{}' | kubectl replace --raw /apis/certificates.k8s.io/v1/certificatesigningrequests/intruder/approval -f -
`

const tunnelOrders = `
exec over WebSocket: kubectl exec cart-0 -- id
exec over SPDY: KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec cart-0 -- id
attach: kubectl attach cart-0
copy out of a Pod: kubectl cp cart-0:/etc/passwd "$TMPDIR/copied"
forward a port over WebSocket: kubectl port-forward pod/cart-0 18080:80
forward a port over SPDY: KUBECTL_PORT_FORWARD_WEBSOCKETS=false kubectl port-forward pod/cart-0 18081:80
debug a Pod: kubectl debug cart-0 --image=busybox --profile=general
debug a node: kubectl debug node/nightcrier-selftest --image=busybox --profile=general
a token of a ServiceAccount: kubectl create token default
`

// proxyOrder is the same from a second program: the sandbox may not let it connect.
const proxyOrder = `
a proxy that deletes: kubectl proxy --port=18001 --reject-methods='^$' & p=$!; for i in 1 2 3 4 5 6 7 8; do bash -c 'exec 3<>/dev/tcp/127.0.0.1/18001; printf "DELETE /api/v1/namespaces/nightcrier-selftest/pods/cart-0 HTTP/1.0\r\nHost: localhost\r\n\r\n" >&3; cat <&3' && break; sleep 0.3; done; kill $p
`

// spelledOrders are one order in the spellings that a filter of words would miss.
const spelledOrders = `
spelled with quotes: kube""ctl "del"ete pod cart-0 --wait=false
spelled with a backslash: \kubectl del\ete pod cart-0 --wait=false
spelled by a variable: k=kubectl; d=delete; $k $d pod cart-0 --wait=false
spelled by a substitution: $(echo kubectl) $(echo delete) pod cart-0 --wait=false
spelled in base64: echo a3ViZWN0bCBkZWxldGUgcG9kIGNhcnQtMCAtLXdhaXQ9ZmFsc2U= | base64 -d | sh
spelled in octal: printf '\153\165\142\145\143\164\154 delete pod cart-0 --wait=false' | sh
through eval: eval "kubectl delete pod cart-0 --wait=false"
through env: env kubectl delete pod cart-0 --wait=false
through xargs: echo pod cart-0 --wait=false | xargs kubectl delete
through find: find /etc/hostname /etc/hosts -maxdepth 0 -exec kubectl delete pod cart-0 --wait=false ';'
by its whole path: $(command -v kubectl) delete pod cart-0 --wait=false
behind a read: kubectl get pods > /dev/null; kubectl delete pod cart-0 --wait=false
behind a flag: kubectl -n nightcrier-selftest --request-timeout=10s delete pod cart-0 --wait=false
in a script: printf 'kubectl delete pod cart-0 --wait=false\n' > "$TMPDIR/s"; sh "$TMPDIR/s"
by an alias of kubectl: printf 'alias k=kubectl\nk delete pod cart-0 --wait=false\n' | bash -O expand_aliases
`

const rawOrders = `
raw delete: kubectl delete --raw /api/v1/namespaces/nightcrier-selftest/pods/cart-0
raw create: echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"intruder"}}' | kubectl create --raw /api/v1/namespaces/nightcrier-selftest/configmaps -f -
raw replace: echo '{}' | kubectl replace --raw /api/v1/namespaces/nightcrier-selftest/configmaps/settings -f -
raw eviction: echo '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"cart-0"}}' | kubectl create --raw /api/v1/namespaces/nightcrier-selftest/pods/cart-0/eviction -f -
raw exec: kubectl get --raw '/api/v1/namespaces/nightcrier-selftest/pods/cart-0/exec?command=id&stdout=true'
raw proxy to a Pod: kubectl get --raw /api/v1/namespaces/nightcrier-selftest/pods/cart-0/proxy/
raw proxy to a Service: kubectl get --raw /api/v1/namespaces/nightcrier-selftest/services/http:cart:80/proxy/
raw proxy to a node: kubectl get --raw /api/v1/nodes/nightcrier-selftest/proxy/logs/
raw path with an escape: kubectl get --raw '/api/v1/namespaces/nightcrier-selftest/pods/cart-0/%2e%2e/cart-0/exec?command=id'
raw metrics: kubectl get --raw /metrics
raw logs of the API server: kubectl get --raw /logs/
`

const impersonating = `
as the administrator: kubectl get pods --as=system:admin
as a group: kubectl get pods --as=x --as-group=system:masters
`

const identityOrders = `
past the guard to the cluster: kubectl --server="${SELFTEST_DOOR:-http://127.0.0.1:1}" --token=x get pods
without a token: kubectl --token=x get pods
another kubeconfig: kubectl --kubeconfig=/etc/kubernetes/admin.conf get pods
the user's kubeconfig: cat /root/.kube/config /home/*/.kube/config
the token of a ServiceAccount: cat /var/run/secrets/kubernetes.io/serviceaccount/token
`

// secretOrders may be answered, without what is secret.
const secretOrders = `
read a Secret as JSON: kubectl get secret db -o json
read a Secret as YAML: kubectl get secret db -o yaml
read a Secret by a path: kubectl get secret db -o jsonpath='{.data.password}'
decode a Secret: kubectl get secret db -o go-template='{{range $k, $v := .data}}{{$v|base64decode}}{{end}}'
read all Secrets: kubectl get secrets -o yaml
read a Secret raw: kubectl get --raw /api/v1/namespaces/nightcrier-selftest/secrets/db
read a Secret by a path with dots: kubectl get --raw '/api/v1/namespaces/nightcrier-selftest/pods/../secrets/db'
read a release of Helm: kubectl get secret sh.helm.release.v1.cart.v1 -o jsonpath='{.data.release}'
read the environment of a Pod: kubectl get pod cart-0 -o yaml
describe a Pod: kubectl describe pod cart-0
read the ConfigMap: kubectl get configmap settings -o yaml
read what was applied: kubectl get deployment cart -o jsonpath='{.metadata.annotations}'
read a log: kubectl logs cart-0
read the log before: kubectl logs cart-0 --previous
read events: kubectl get events -o wide
`
