// Package watch shows a fleet in real time: running migrations with their progress, and changes of the VMs' status and
// conditions, with their time and the duration of the previous state. On a terminal, the migrations are redrawn below
// the changes; otherwise, everything is printed as lines.
//
// Each host is polled with one call for all its VMs: at every tick, and at once when it reports an event. Each
// migration from the host costs one more call. Hosts are polled independently: an unreachable host doesn't affect what
// is shown of the others. Pure functions produce the output from one model.
//
// It may import fleet and the packages below it. It must not know how hosts are reached.
package watch
