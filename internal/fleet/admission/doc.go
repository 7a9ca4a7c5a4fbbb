// Package admission decides when a move may begin: the queue of the VMs that are to move, slots for a limited number of
// concurrent tries, a mutex for each key, and steps that a cancel doesn't interrupt once they have started.
//
// Start with queue.go: the queue of moves.
//
// It imports nothing of the project. It queries no host: hosts and VMs are names to it, and the admitted work is a
// function.
package admission
