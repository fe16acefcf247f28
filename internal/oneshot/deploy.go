package oneshot

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	"nightcrier.dev/nightcrier/internal/guard/deploy"
	"nightcrier.dev/nightcrier/internal/mask"
)

// WritePolicy says what an MCP server that writes may apply.
type WritePolicy = deploy.Policy

// writesFile is where writes are recorded, below the workspace root.
const writesFile = "deploy.jsonl"

// newWriter makes the server that applies manifests, for one context.
func (o MCPOptions) newWriter(ctx context.Context, record func(deploy.Write) error) (*mcpserver.Server, error) {
	contexts, err := servedContexts(o.Kubeconfig, o.Context)
	if err != nil {
		return nil, err
	}
	c, err := kube.Dial(o.Kubeconfig, contexts[0].context, 0)
	if err != nil {
		return nil, err
	}
	secrets := []string{o.Token}
	if cred, err := app.ReadCredential(o.Kubeconfig, contexts[0].context, o.Environ); err == nil { // in a Pod there is no file
		secrets = append(secrets, cred.Secrets()...)
	}
	set, err := deploy.Open(ctx, deploy.Config{Policy: *o.Write, Cluster: contexts[0].cluster, Client: c, Mask: mask.Fresh(secrets...).Bytes, Record: record})
	if err != nil {
		return nil, err
	}
	var tools []mcpserver.Tool
	for _, t := range set.Tools() {
		tools = append(tools, mcpserver.Tool(t))
	}
	return mcpserver.New(mcpserver.Config{Tools: tools, Instructions: deploy.Instructions, Token: o.Token, Version: o.Version, Logger: o.Logger, Limits: o.Limits})
}

// serveWriter is ServeMCP of a server that writes.
func (o MCPOptions) serveWriter(ctx context.Context) (err error) {
	if o.Listener != nil && o.Token == "" {
		return nightcrier.Errorf(nightcrier.Refused, "a server that writes takes no requests without a token, not even from this machine: set NIGHTCRIER_MCP_TOKEN, name a file with --token-file, or serve a single client with --stdio")
	}
	path := o.WriteRecord
	if path == "" {
		if err := os.MkdirAll(o.Config.WorkspaceRoot, 0o700); err != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "workspace_root: %w", err)
		}
		path = filepath.Join(o.Config.WorkspaceRoot, writesFile)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "record of writes: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, err := o.newWriter(ctx, func(w deploy.Write) error {
		line, err := json.Marshal(w)
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err == nil {
			err = file.Sync()
		}
		return err
	})
	if err != nil {
		return err
	}
	defer s.Close()
	return o.serveClients(ctx, s)
}
