// Package github reads pull requests on GitHub and writes on them, as an App or by a token.
//
// Nothing is posted twice: before a review, a comment or a check is made, it is looked for by its
// marker, among what we wrote ourselves, and adopted. A request is bounded in size and time, follows
// no redirect, and waits as long as GitHub asks for, within bounds.
package github
