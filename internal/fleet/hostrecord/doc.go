// Package hostrecord defines what virtfleet keeps on a host: its cordon, the copies of the policies, and what a drain
// evicted from it. It is one document, which libvirt stores as the value of a secret.
//
// It is pure. It imports evacuation, policy and the options of migrations, whose types the document contains. It must
// not know how a host is queried: inventory reads the document, and records changes it.
package hostrecord
