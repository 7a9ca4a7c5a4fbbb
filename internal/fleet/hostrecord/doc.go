// Package hostrecord is what virtfleet keeps on a host: its cordon, the copies of the policies, and what a drain took
// away from it. It is one document, which libvirt stores as the value of a secret.
//
// It is pure: it imports what decides (eviction, policy) and the options of migrations, which the document holds. It
// must
// not know how a host is asked; the inventory reads the document, and the fleet changes it.
package hostrecord
