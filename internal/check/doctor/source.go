package doctor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// checkFaults looks at every way in which faults of a cluster arrive. What its watch
// needs is looked at with its credential.
func checkFaults(ctx context.Context, cfg *config.Config, cl config.Cluster) (checks []Check) {
	c := Check{Code: CheckSource, Name: cl.Name}
	if cl.MCP.Endpoint != "" {
		checks = append(checks, checkMCP(ctx, c, cl))
	}
	if cl.Watch {
		checks = append(checks, c.asOK("watch, over the cluster's API"))
	}
	if cl.Alertmanager.Given {
		checks = append(checks, checkAlerts(c, cfg, cl.Alertmanager))
	}
	switch {
	case len(checks) > 0:
	case len(cfg.Webhooks) > 0:
		checks = append(checks, c.asOK("webhooks that name it"))
	default:
		c.Status, c.Detail, c.Hint = statusWarn, "no fault source", "set clusters[].watch, clusters[].mcp.endpoint or clusters[].alertmanager"
		checks = append(checks, c)
	}
	return checks
}

// checkMCP goes the way of a server to the subscription.
func checkMCP(ctx context.Context, c Check, cl config.Cluster) Check {
	u, err := url.Parse(cl.MCP.Endpoint)
	if err != nil {
		return c.asFailed(fmt.Errorf("mcp.endpoint is not a URL"), "write it as http://host:port/mcp")
	}
	mode, err := mcp.Probe(ctx, mcp.Config{Cluster: cl.Name, Endpoint: cl.MCP.Endpoint, Mode: cl.MCP.Mode, APIKey: cl.MCP.APIKey.Reveal, Logger: slog.New(slog.DiscardHandler)})
	switch {
	case nightcrier.CodeOf(err) == nightcrier.Unreachable:
		return c.asFailed(fmt.Errorf("%s does not answer as a fault source does: %w", u.Host, err), "start kubernetes-mcp-server with --port there, or mend clusters[].mcp.endpoint")
	case err != nil:
		return c.asFailed(fmt.Errorf("%s cannot be subscribed to: %w", u.Host, err), "name a server that pushes faults in clusters[].mcp.endpoint, or set clusters[].watch")
	}
	return c.asOK(fmt.Sprintf("%s offers %s", u.Host, mode))
}

// checkAlerts asks whether anybody could post.
func checkAlerts(c Check, cfg *config.Config, a config.Alertmanager) Check {
	c.Status = statusWarn
	switch {
	case a.TokenEnv != "" && !a.Token.IsSet():
		c.Detail, c.Hint = fmt.Sprintf("nobody may post alerts: the variable %s is not set", a.TokenEnv), "set it for the server, to what Alertmanager sends"
	case cfg.Listen == "" && (cfg.WebhookListen == "" || a.TokenEnv == ""):
		c.Detail, c.Hint = "alerts arrive over the server's socket only, which no Alertmanager posts to", "set listen; or webhook_listen, and clusters[].alertmanager.token_env"
	default:
		c = c.asOK("alerts, as they are posted")
	}
	return c
}

// checkWatch asks whether the credential may follow what a watch looks at.
func checkWatch(ctx context.Context, cl config.Cluster, client *kube.Client) Check {
	c := Check{Code: CheckWatch, Name: cl.Name, Status: statusOK}
	places := detect.Kinds(cl.Namespaces...)
	denied, err := deniedAt(ctx, client, places)
	if err != nil {
		return c.asFailed(err, "the cluster must answer what its credential may do")
	}
	var needed, useful []string
	for i, w := range places {
		if w.Optional {
			useful = append(useful, denied[i]...)
		} else {
			needed = append(needed, denied[i]...)
		}
	}
	const hint = "`nightcrier rbac manifest` prints what it needs"
	if len(needed) > 0 {
		return c.asFailed(fmt.Errorf("the credential may not %s", strings.Join(append(needed, useful...), ", ")), hint)
	}
	if len(useful) > 0 {
		c.Status, c.Detail, c.Hint = statusWarn, "the credential may not "+strings.Join(useful, ", ")+": such faults are not seen", hint
		return c
	}
	return c.judgeWatches(places, observe.Try(ctx, client, places))
}

// judgeWatches judges the watches that were tried.
func (c Check) judgeWatches(places []detect.Watched, errs []error) Check {
	var absent []string
	var lost, refused []error
	for i, err := range errs {
		code := nightcrier.CodeOf(err)
		switch {
		case err == nil:
		case places[i].Optional && code == nightcrier.NotFound:
			absent = append(absent, string(places[i].Kind))
		case places[i].Optional && code == nightcrier.Refused:
			refused = append(refused, err)
		default:
			lost = append(lost, err)
		}
	}
	switch {
	case len(lost) > 0:
		return c.asFailed(fmt.Errorf("%d of %d watches do not stand at once: %w", len(lost), len(places), lost[0]),
			"what the kubeconfig leads to, such as a proxy, must grant all of them at once; with clusters[].namespaces there is one for each kind in each of these")
	case len(refused) > 0:
		c.Status, c.Detail = statusWarn, fmt.Sprintf("%d of %d watches are refused, such faults are not seen: %s", len(refused), len(places), refused[0])
		c.Hint = "what the kubeconfig leads to refuses what the credential may read"
		return c
	}
	c = c.asOK(fmt.Sprintf("%d watches stand at once", len(places)-len(absent)))
	if len(absent) > 0 {
		c.Detail += "; the cluster has no " + strings.Join(absent, ", ")
	}
	return c
}

// deniedAt lists for each place what the credential may not do there.
func deniedAt(ctx context.Context, client *kube.Client, places []detect.Watched) ([][]string, error) {
	denied, errs := make([][]string, len(places)), make([]error, len(places))
	slots := make(chan struct{}, doctorAtOnce)
	var wg sync.WaitGroup
	for i, w := range places {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			denied[i], errs[i] = deniedIn(ctx, client, w)
		})
	}
	wg.Wait()
	return denied, cmp.Or(errs...)
}

func deniedIn(ctx context.Context, client *kube.Client, w detect.Watched) (denied []string, err error) {
	k := kinds.MustNamed(string(w.Kind))
	for _, verb := range []string{"list", "watch"} {
		may, err := client.May(ctx, authz.ResourceAttributes{Verb: verb, Group: k.Group, Resource: k.Plural, Namespace: w.Namespace})
		if err != nil {
			return nil, err
		}
		if may.Allowed {
			continue
		}
		what := verb + " " + k.Resource()
		if w.Namespace != "" {
			what += " in " + w.Namespace
		}
		denied = append(denied, what)
	}
	return denied, nil
}

// checkSources asks each source of a cluster whether it answers.
func checkSources(ctx context.Context, cl config.Cluster) []Check {
	access := cl.DataAccess()
	if access == nil {
		return nil
	}
	masker := mask.Fresh(access.Secrets()...)
	g, err := data.New(data.Config{
		Access: *access, Mask: masker.Bytes, MaskLog: masker.Log, Logger: slog.New(slog.DiscardHandler),
		Audit: func(context.Context, journal.Request) error { return nil },
	})
	if err != nil {
		return []Check{Check{Code: CheckSources, Name: cl.Name}.asFailed(err, "see clusters[].sources")}
	}
	var checks []Check
	for _, system := range []string{data.Prometheus, data.Loki} {
		if !g.Has(system) {
			continue
		}
		c := Check{Code: CheckSources, Name: cl.Name + ", " + system}
		if said, err := g.Check(ctx, system); err != nil {
			checks = append(checks, c.asFailed(err, "check clusters[].sources."+system+": its address from here, its credential, and its tenant"))
		} else {
			checks = append(checks, c.asOK(said))
		}
	}
	return checks
}
