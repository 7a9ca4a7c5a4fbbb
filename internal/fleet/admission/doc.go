// Package admission decides when a move may begin: the queue of the VMs that are to move, the slots of a few that
// try at a time, a mutex for each key, and steps that outlast a cancel once they have started.
//
// It imports nothing of the project and asks no host: it knows hosts and VMs by their names, and what is done once
// admitted as a function.
package admission
