// Package terminal writes for users: lines that stay, and on a terminal, a part below them that is redrawn.
//
// It may import nothing of this project.
package terminal
