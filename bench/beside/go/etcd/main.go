// Etcd's concurrency.Mutex. Workers share one client; kind `session`: each has a session (a lease of
// 30 s that is kept alive) of its own, as processes have.
package main

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"lockkeeper.bench/beside/turns"
)

const leaseSeconds = 30

type lock struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutexes map[string]*concurrency.Mutex
}

func (l *lock) Lock(name string) error {
	// A session ends when its lease does: whoever goes on needs a new one.
	if l.session != nil {
		select {
		case <-l.session.Done():
			l.session = nil
		default:
		}
	}
	if l.session == nil {
		session, err := concurrency.NewSession(l.client, concurrency.WithTTL(leaseSeconds))
		if err != nil {
			return err
		}
		l.session = session
		go func() {
			<-session.Done()
			turns.Told("session over")
		}()
	}
	mutex := concurrency.NewMutex(l.session, "/"+name)
	if err := mutex.Lock(context.Background()); err != nil {
		return err
	}
	l.mutexes[name] = mutex
	return nil
}

func (l *lock) Unlock(name string) (bool, error) {
	select {
	case <-l.session.Done():
		return false, nil
	default:
	}
	err := l.mutexes[name].Unlock(context.Background())
	if errors.Is(err, concurrency.ErrLockReleased) {
		return false, nil
	}
	return err == nil, err
}

func main() {
	turns.Main(func(url, _ string) (func() (turns.Lock, error), error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
		return func() (turns.Lock, error) {
			return &lock{client, nil, map[string]*concurrency.Mutex{}}, nil
		}, err
	})
}
