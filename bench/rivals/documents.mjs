// What the rivals on Node read: a find for a list, and a batch for a relation.
//
// Each function sends one command, as the twin does. The projections name what the schema shows of
// a type, the relations of many parents are read with $in and handed out in the order of the keys.

const POST = { title: 1, kind: 1, score: 1, rating: 1, created: 1, tags: 1, authorId: 1 }
const USER = { name: 1, email: 1 }
const COMMENT = { text: 1, likes: 1, postId: 1 }
const ONE_BATCH = 10_000

// A date as docgraph writes it.
export const serializeDate = (value) => ({ $date: value.getTime() })

export function openDocuments(db) {
  const users = db.collection('users')
  const posts = db.collection('posts')
  const comments = db.collection('comments')

  return {
    findPost: (id) => posts.findOne({ _id: id }, { projection: POST }),

    findPosts: (limit) =>
      posts
        .find({}, { projection: POST, sort: { created: -1 }, limit: limit ?? 0, batchSize: limit || ONE_BATCH })
        .toArray(),

    async loadUsers(ids) {
      const filter = { _id: { $in: [...new Set(ids)] } }
      const found = await users.find(filter, { projection: USER, batchSize: ONE_BATCH }).toArray()
      const byId = new Map(found.map((user) => [user._id, user]))
      return ids.map((id) => byId.get(id) ?? null)
    },

    // Keys are { id, limit }: the children of a parent, at most so many.
    loadComments: (keys) => loadUnder(comments, 'postId', keys, { projection: COMMENT, sort: { likes: -1 } }),
    loadPostsOf: (keys) => loadUnder(posts, 'authorId', keys, { projection: POST, sort: { created: -1 } })
  }
}

async function loadUnder(collection, foreignKey, keys, options) {
  const under = new Map(keys.map(({ id }) => [id, []]))
  const filter = { [foreignKey]: { $in: [...under.keys()] } }
  const found = await collection.find(filter, { ...options, batchSize: ONE_BATCH }).toArray()
  for (const document of found) under.get(document[foreignKey]).push(document)
  return keys.map(({ id, limit }) => (limit == null ? under.get(id) : under.get(id).slice(0, limit)))
}
