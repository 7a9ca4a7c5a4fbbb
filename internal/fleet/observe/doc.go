// Package observe reports the state of VMs and hosts, for users and for their monitoring: the facts of one VM from all
// layers that know any, statistics of all VMs in one pass over each host, the properties of a host, addresses. A part
// that is unknown comes with the reason. The package only reads, and waits for no guest longer than one question takes.
//
// Start with observe.go: Observe collects the facts of one VM. ask.go has the questions and result.go puts the answers
// together. stats.go and hosts.go have the other two ways to look.
//
// It imports inventory (the hosts and their answers), records with policy and hostrecord (which policies apply),
// evacuation (how a drain would evict a VM), move and migration (what would block a move), lease (whether a run resumes
// a migration), domain, libvirt, guest and stats, and status, which derives conditions from the facts. It must not know
// who asks. It takes no lock.
package observe
