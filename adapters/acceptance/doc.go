// Package acceptance tests the adapters with the libraries that they are for, in several Lockers or
// processes at once, on memory, on files, and on each service whose URL is in LOCKER_URLS, which are
// separated by spaces. It is never released.
package acceptance
