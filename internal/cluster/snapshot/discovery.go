package snapshot

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// answerDiscovery says which kinds there are, all at once where the caller knows that, or
// group by group.
func (a api) answerDiscovery(w http.ResponseWriter, r *http.Request, root, group, version string) {
	switch {
	case version != "":
		a.resourceList(w, group, version)
	case group == "" && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList"):
		a.answerAggregated(w, root == "apis")
	case root == "api":
		writeAnswer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}, ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{}})
	case group == "":
		writeAnswer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: a.listGroups()})
	default:
		for _, g := range a.listGroups() {
			if g.Name == group {
				g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				writeAnswer(w, http.StatusOK, g)
				return
			}
		}
		writeFailure(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

// listGroups lists the named API groups with their versions.
func (a api) listGroups() (list []metav1.APIGroup) {
	for _, c := range a.snap.servedCollections() {
		v := metav1.GroupVersionForDiscovery{GroupVersion: c.APIVersion(), Version: c.Version}
		switch last := len(list) - 1; {
		case c.Group == "":
		case last < 0 || list[last].Name != c.Group:
			list = append(list, metav1.APIGroup{Name: c.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		case list[last].Versions[len(list[last].Versions)-1] != v:
			list[last].Versions = append(list[last].Versions, v)
		}
	}
	return list
}

func (a api) resourceList(w http.ResponseWriter, group, version string) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, c := range a.snap.servedCollections() {
		if c.Group != group || c.Version != version {
			continue
		}
		list.GroupVersion = c.APIVersion()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: c.Plural, SingularName: strings.ToLower(c.Name), Namespaced: !c.ClusterWide, Kind: c.Name, Verbs: readVerbs, ShortNames: c.Shorts(), Categories: c.categories(),
		})
		if c.kind.Name == "Pod" {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: "pods/log", Namespaced: true, Kind: "Pod", Verbs: []string{"get"}})
		}
	}
	if list.GroupVersion == "" {
		writeFailure(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	writeAnswer(w, http.StatusOK, list)
}

// inAll are the kinds that `kubectl get all` shows.
var inAll = map[string]bool{
	"Pod": true, "Service": true, "ReplicationController": true, "Deployment": true, "ReplicaSet": true, "StatefulSet": true, "DaemonSet": true,
	"Job": true, "CronJob": true, "HorizontalPodAutoscaler": true,
}

func (k kind) categories() []string {
	if inAll[k.Name] {
		return []string{"all"}
	}
	return nil
}

// answerAggregated answers with the discovery of all groups in one answer; named tells the core
// group from all others.
func (a api) answerAggregated(w http.ResponseWriter, named bool) {
	type object = map[string]any
	var groups []object
	versions := map[string]object{}
	for _, c := range a.snap.servedCollections() {
		if (c.Group != "") != named {
			continue
		}
		v := versions[c.APIVersion()]
		if v == nil {
			v = object{"version": c.Version, "freshness": "Current", "resources": []object{}}
			versions[c.APIVersion()] = v
			if last := len(groups) - 1; last >= 0 && groups[last]["metadata"].(object)["name"] == c.Group {
				groups[last]["versions"] = append(groups[last]["versions"].([]object), v)
			} else {
				groups = append(groups, object{"metadata": object{"name": c.Group}, "versions": []object{v}})
			}
		}
		v["resources"] = append(v["resources"].([]object), c.discoveryEntry())
	}
	w.Header().Set("Content-Type", aggregated)
	writeAnswer(w, http.StatusOK, object{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": object{}, "items": groups})
}

// discoveryEntry is the kind as aggregated discovery shows it.
func (k kind) discoveryEntry() map[string]any {
	where := "Namespaced"
	if k.ClusterWide {
		where = "Cluster"
	}
	kindOf := map[string]any{"group": k.Group, "version": k.Version, "kind": k.Name}
	d := map[string]any{
		"resource": k.Plural, "responseKind": kindOf, "scope": where, "singularResource": strings.ToLower(k.Name), "verbs": readVerbs,
		"shortNames": k.Shorts(), "categories": k.categories(),
	}
	if k.Name == "Pod" && k.Group == "" {
		d["subresources"] = []map[string]any{{"subresource": "log", "responseKind": kindOf, "verbs": []string{"get"}}}
	}
	return d
}
