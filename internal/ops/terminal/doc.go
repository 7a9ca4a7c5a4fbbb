// Package terminal writes to people: lines that stay, and below them, on a terminal, a part that is drawn anew.
//
// It may import nothing of this project.
package terminal
