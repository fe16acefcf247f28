// Package telemetry is what operators watch the product by: a Prometheus
// registry and structured logs.
//
// Metric names that begin with agent_runtime_ describe agents and keep the
// names that existing dashboards use; everything else begins with nightcrier_.
// Nothing here is global: the app makes one Metrics and one logger and hands
// them on.
package telemetry
