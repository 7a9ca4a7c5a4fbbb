// Package opstest helps the tests of commands: it runs them in process against the lab's hosts, and reads what they
// write.
//
// Only tests may import it.
package opstest
