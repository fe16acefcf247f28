// Package review makes a review of what agents found in a pull request. It reads the diff, leaves
// in the workspace what the agents are shown, holds what they found against the diff and what was
// said before, and plans what is posted: little, once, and nothing that the diff does not show. It
// knows no forge: [Reader] and [Writer] say what one has to do. The agents hold nothing by which
// they could write; the server writes what was planned.
package review
