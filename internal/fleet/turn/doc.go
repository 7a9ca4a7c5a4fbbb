// Package turn is about going one after the other: the queue of the VMs that are to move, the slots of a few who
// try at a time, a mutex for each key, and what goes on beyond a cancel once its turn has come.
//
// It imports nothing of the project and asks no host: it knows hosts and VMs by their names, and what is done in a
// turn as a function.
package turn
