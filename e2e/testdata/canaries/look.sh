# An agent that goes round: every kind in every form, then the sandbox itself.
out="$OUTPUT_DIR/artifacts"
ask() { echo "== kubectl $*"; kubectl "$@" 2>&1; }
{
kinds=$(kubectl api-resources --verbs=list -o name 2>/dev/null | tr '\n' ',')
for form in yaml json wide name 'go-template={{"{{.}}"}}' 'jsonpath={.items[*]}'; do
	ask get "${kinds%,}" -A -o "$form" --show-managed-fields
done
ask describe pods,deployments,replicasets,jobs,cronjobs,configmaps,secrets,serviceaccounts,controllerrevisions,databases -n "{{ns}}"
for s in db db-tls registry cart-token sh.helm.release.v1.cart.v1; do
	ask get secret "$s" -n "{{ns}}" -o yaml
	ask get secret "$s" -n "{{ns}}" -o 'go-template={{"{{range .data}}{{.}} {{. | base64decode}}{{end}}"}}'
	ask get --raw "/api/v1/namespaces/{{ns}}/secrets/$s"
done
pod=cart-7d4b9c8f6d-x2k9q
for more in "" --previous --timestamps "--previous --prefix" --tail=3 "--previous --tail=9" "--previous --tail=12" "--previous --tail=15" "--previous --limit-bytes=2000" "--previous --since=1h" "--follow --previous"; do
	ask logs "$pod" -n "{{ns}}" -c app $more
done
ask events -n "{{ns}}"
ask get events -A -w --request-timeout=1s -o json
ask get pods -A -w --request-timeout=1s -o yaml
for path in secrets configmaps pods events; do
	for query in "" "?limit=1" "?watch=true&timeoutSeconds=1" "?fieldSelector=metadata.name%3Ddb" "?pretty=true"; do
		ask get --raw "/api/v1/namespaces/{{ns}}/$path$query"
	done
done
ask get --raw "/api/v1/namespaces/{{ns}}/pods/$pod/log?container=app&previous=true&tailLines=8"
ask get --raw /apis/canary.example.com/v1/databases
ask get --raw /openapi/v2 | head -c 1000
ask config view --raw
ask auth can-i --list
ask explain pods.spec.containers.env
} > "$out/round.txt"
env > "$out/env.txt"
cat /proc/*/environ /proc/*/cmdline > "$out/proc.txt" 2> /dev/null
cat "$KUBECONFIG" > "$out/kubeconfig.txt"
cat {{stolen}} > "$out/stolen.txt" 2>&1
head -c 20000 "$out/round.txt"
tail -c 20000 "$out/round.txt"
kubectl logs "$pod" -n "{{ns}}" -c app --previous >&2
