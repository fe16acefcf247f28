// Package fake is the room of scripted peers that the product itself uses, to be tried without
// a cluster or a key: in a demo, a self-test, a doctor's trial. It offers:
//
//   - demo: recorded clusters, each with a fault
//   - fakemodel: a model's API
package fake
