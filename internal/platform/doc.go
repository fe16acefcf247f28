// Package platform is the room of what pipelines other than an investigation are made of: how
// the places where people work are read and written, and what is said there. It offers:
//
//   - github: pull requests on GitHub, read and written
//   - review: what a review of a pull request is
package platform
