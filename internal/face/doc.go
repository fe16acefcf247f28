// Package face is the room of how people and programs reach us, and how we reach them. It
// offers:
//
//   - api: incidents, events, clusters and the journal over HTTP
//   - api/client: a client of that
//   - api/sock: Unix sockets that only their owner may use
//   - mcpserver: our MCP server: tools, subscriptions, investigations
//   - notify: messages to people, each at most once
//   - notify/slack: these in Slack
//   - ui: the page: incidents, runs and the fleet for people with a browser
//   - telemetry: metrics and logs
package face
